-- Dead letters that recover by policies and generations. Everything that changes them begins with
-- lock, so that one worker at a time does it.

-- name: first
-- No earlier one of the stream and target is still to be decided: it would be overtaken.
not exists (
    select 1 from duly.deliveries e
    where e.namespace = d.namespace and e.stream = d.stream and e.position < d.position
      and e.dead_at is not null and e.position is not null and e.disposition is null
      and e.target = d.target)

-- name: survey
-- What there is to do in each namespace: dead letters without a disposition, the next to be
-- retried, the policies, and the generations.
select n.namespace, coalesce(:now::timestamptz, now()) as seen_at, r.digest,
       (select d.target from duly.deliveries d
        where d.namespace = n.namespace and d.dead_at is not null and d.disposition is null
        order by d.target limit 1) is not null as undecided, (
           select d.revive_at from duly.deliveries d
           where d.namespace = n.namespace and d.revive_at is not null order by d.revive_at limit 1
       ) as next_at, (
           select coalesce(json_agg(json_build_object('target', nullif(p.target, ''),
                      'reason', p.reason, 'tries', p.tries, 'after', p.cool_down,
                      'then', p.ending)), '[]')::text
           from duly.recovery_policies p where p.namespace = n.namespace
       ) as policies, exists (
           select 1 from duly.generations g where g.namespace = n.namespace and g.done_at is null
             and (g.demanded or g.name = :generation::text)
       ) as has_generation,
       :generation::text is null or exists (
           select 1 from duly.generations g
           where g.namespace = n.namespace and g.name = :generation::text) as knows_own
from (select distinct namespace from duly.targets) n
left join duly.recovery r on r.namespace = n.namespace
where :served::text[] is null or n.namespace = any(:served::text[])
order by n.namespace;

-- name: policies
select target, reason, tries, cool_down, ending from duly.recovery_policies
where namespace = :namespace order by target, reason;

-- name: set_policy
insert into duly.recovery_policies (namespace, target, reason, tries, cool_down, ending)
values (:namespace, :target, :reason, :tries, :cool_down, :ending)
on conflict (namespace, target, reason) do update
set tries = excluded.tries, cool_down = excluded.cool_down, ending = excluded.ending;

-- name: remove_policy
delete from duly.recovery_policies
where namespace = :namespace and target = :target and reason = :reason
returning reason;

-- name: lock
-- No row if another worker is at it.
select digest, paced_at, coalesce(:now::timestamptz, now()) as now_at from duly.recovery
where namespace = :namespace for update skip locked;

-- name: open
insert into duly.recovery (namespace) values (:namespace) on conflict do nothing;

-- name: forget
-- Policies have changed: they are applied again to what earlier ones decided.
with chosen as materialized (
    select id from duly.deliveries
    where namespace = :namespace and disposition = any(array['left', 'recovering'])
    limit :limit for update skip locked
), forgotten as (
    update duly.deliveries d set disposition = null, revive_at = null
    from chosen c where d.id = c.id and d.disposition in ('left', 'recovering')
)
-- Locked ones were left out.
select exists (
    select from duly.deliveries
    where namespace = :namespace and disposition = any(array['left', 'recovering'])
      and id <> all(array(select id from chosen))
) as more;

-- name: applied
update duly.recovery set digest = :digest where namespace = :namespace;

-- name: undecided_targets
-- The targets of dead letters without a disposition, each found by one step in the index.
with recursive found (target) as (
    select min(target) from duly.deliveries
    where namespace = :namespace and dead_at is not null and disposition is null
    union all
    select (select min(d.target) from duly.deliveries d
            where d.namespace = :namespace and d.dead_at is not null and d.disposition is null
              and d.target > found.target)
    from found where found.target is not null
)
select t.id, t.name from found join duly.targets t on t.id = found.target limit :limit;

-- name: undecided
select d.id::text as id, :name::text as target, d.reason, d.error, d.attempt, d.retry, d.dead_at,
       coalesce(d.revivals, 0) as revivals,
       case when d.position is not null then d.stream end as stream
from duly.deliveries d
where d.namespace = :namespace and d.dead_at is not null and d.disposition is null
  and d.target = :target
order by d.dead_at limit :limit;

-- name: decide
-- All dead letters that have not changed since they were read. Locked ones are left for the next
-- time: who has locked one may wait for another.
with free as materialized (
    select id from duly.deliveries where id = any(:id::uuid[]) for update skip locked
)
update duly.deliveries d set disposition = t.disposition, revive_at = t.revive_at
from unnest(:id::uuid[], :disposition::text[], :revive_at::timestamptz[], :dead_at::timestamptz[])
    as t(id, disposition, revive_at, dead_at)
join free on free.id = t.id
where d.id = t.id and d.state = 'dead' and d.disposition is null and d.dead_at = t.dead_at
returning d.id::text as id;

-- name: due
select id::text as id, case when position is not null then stream end as stream from duly.deliveries
where namespace = :namespace and revive_at <= coalesce(:now::timestamptz, now()) order by revive_at, id limit :limit;

-- name: take
-- Those that are still to be retried.
select id::text as id, coalesce(revivals, 0) as revivals from duly.deliveries
where id = any(:ids::uuid[]) and state = 'dead' and disposition = 'recovering'
  and revive_at <= coalesce(:now::timestamptz, now())
order by id for update skip locked;

-- name: take_line
-- The first of a stream that are to be retried, in order.
select id::text as id, coalesce(revivals, 0) as revivals from duly.deliveries d
where namespace = :namespace and stream = :stream and dead_at is not null
  and position is not null and disposition = 'recovering'
  and revive_at <= coalesce(:now::timestamptz, now())
  and {first}
order by position limit :limit for update;

-- name: revived
update duly.deliveries d
set revivals = t.revivals, generation = coalesce(:generation::text, d.generation)
from unnest(:id::uuid[], :revivals::integer[]) as t(id, revivals)
where d.id = t.id and d.state = 'pending';

-- name: pace
update duly.recovery set paced_at = :paced_at where namespace = :namespace;

-- name: begin_generation
insert into duly.generations as g (namespace, name, first_at, with_held, demanded)
values (:namespace, :name, coalesce(:now::timestamptz, now()), :with_held, :demanded)
on conflict (namespace, name) do update
set with_held = g.with_held or excluded.with_held, demanded = g.demanded or excluded.demanded,
    done_at = null
where excluded.demanded;

-- name: generations
select name, first_at, with_held, demanded, tried, done_at from duly.generations
where namespace = :namespace and (:name::text is null or name = :name::text)
order by first_at desc, name limit :limit;

-- name: open_generations
select name, first_at, with_held, demanded, tried, done_at from duly.generations
where namespace = :namespace and done_at is null and (demanded or name = :own::text)
order by first_at desc, name;

-- name: elsewhere
-- The handlers of live workers that work for the namespace; of other generations if one is given.
select handlers::text as handlers from duly.workers
where ended_at is null
  and (:generation::text is null or generation is distinct from :generation::text)
  and coalesce(namespaces, jsonb_build_array(namespace)) ?| array['*', :namespace::text];

-- name: handlers
-- The same of this generation.
select handlers::text as handlers from duly.workers
where ended_at is null and generation = :generation::text
  and coalesce(namespaces, jsonb_build_array(namespace)) ?| array['*', :namespace::text];

-- name: untried
-- Dead letters that this generation has not tried.
select d.id::text as id, t.name as target, d.reason, d.error, d.attempt, d.retry, d.dead_at,
       coalesce(d.revivals, 0) as revivals,
       case when d.position is not null then d.stream end as stream
from duly.deliveries d join duly.targets t on t.id = d.target
where d.namespace = :namespace and d.disposition = :disposition and d.dead_at <= :first_at
  and d.generation is distinct from :name::text and t.name <> all(:waiting::text[])
order by d.dead_at, d.id limit :limit;

-- name: untried_line
-- The first of a stream that this generation has not tried, in order.
select d.id::text as id, t.name as target, d.reason, d.error, d.attempt, d.retry, d.dead_at,
       coalesce(d.revivals, 0) as revivals, d.stream
from duly.deliveries d join duly.targets t on t.id = d.target
where d.namespace = :namespace and d.stream = :stream and d.dead_at <= :first_at
  and d.position is not null and d.disposition = :disposition
  and d.generation is distinct from :name::text and t.name <> all(:waiting::text[])
  and {first}
order by d.position limit :limit;

-- name: untried_count
select count(*) as many from duly.deliveries d
where d.namespace = :namespace and d.disposition = :disposition
  and d.dead_at <= coalesce(:first_at::timestamptz, :now::timestamptz, now())
  and d.generation is distinct from :name::text;

-- name: take_untried
-- Those that have not changed since they were read: an operator may have held one.
select id::text as id, coalesce(revivals, 0) as revivals from duly.deliveries
where id = any(:ids::uuid[]) and state = 'dead' and dead_at <= :first_at
  and (disposition = 'recovering' or :with_held and disposition = 'held')
  and generation is distinct from :name::text
order by id for update skip locked;

-- name: skip
-- No policy applies to it: this generation does not look at it again.
update duly.deliveries set generation = :name where state = 'dead' and id = any(array(
    select id from duly.deliveries where id = any(:id::uuid[]) for update skip locked));

-- name: count_tried
update duly.generations set tried = tried + :tried
where namespace = :namespace and name = :name;

-- name: end_generation
update duly.generations set done_at = coalesce(:now::timestamptz, now())
where namespace = :namespace and name = :name and done_at is null
returning name;
