-- name: slice
-- The last id of the slice that begins after the given one.
select max(id::text) as id, count(*) as size from (
    select id from duly.deliveries where id > :after::uuid order by id limit :batch
) s;

-- name: prune
-- What a schedule still has on its books stays, or the sweep would make it again.
with old as (
    select id from duly.deliveries d
    where id > :after::uuid and id <= :until::uuid and namespace = :namespace
      and ((state in ('completed', 'cancelled')
            and finished_at < coalesce(:now::timestamptz, now()) - :completed_for * interval '1 second')
        or (state = 'dead'
            and finished_at < coalesce(:now::timestamptz, now()) - :dead_for * interval '1 second'))
      and not exists (select from duly.progress p where p.schedule = d.schedule and p.made_id = d.id)
    for update skip locked
), history as (
    delete from duly.attempts where delivery = any(array(select id from old))
), gone as (
    delete from duly.deliveries where id = any(array(select id from old)) and state <> 'pending'
    returning id
)
select id::text as id from gone;

-- name: count_prunable
select count(*) as size from duly.deliveries d
where id > :after::uuid and id <= :until::uuid and namespace = :namespace
  and ((state in ('completed', 'cancelled')
        and finished_at < coalesce(:now::timestamptz, now()) - :completed_for * interval '1 second')
    or (state = 'dead'
        and finished_at < coalesce(:now::timestamptz, now()) - :dead_for * interval '1 second'))
  and not exists (select from duly.progress p where p.schedule = d.schedule and p.made_id = d.id);

-- name: prune_workers
delete from duly.workers
where reclaimed_at < coalesce(:now::timestamptz, now()) - :completed_for * interval '1 second';

-- name: lay_missing
-- A pending delivery that is in no lane: no ordinary path would find it.
with laid as (
    insert into duly.agenda (lane, delivery, target, priority, due_at, schedule)
    select d.id, d.id, d.target, d.priority, d.due_at,
           case when d.occasion::json ->> 'overlap' <> 'allow' then d.schedule end
    from duly.deliveries d
    where d.id > :after::uuid and d.id <= :until::uuid and d.state = 'pending' and d.lane is null
      and not exists (select from duly.agenda a where a.lane = d.id)
    on conflict do nothing
    returning lane
)
select lane::text as lane from laid;

-- name: free_orphans
-- A lane held under a token of a worker that is long gone, or never was.
with orphan as (
    select a.lane from duly.agenda a
    where a.lane > :after::uuid and a.lane <= :until::uuid and a.token is not null
      and not exists (select from duly.workers w
                      where w.id = a.token / 4294967296 and w.reclaimed_at is null)
    for update skip locked
), freed as (
    update duly.agenda set token = null, claimed_at = null
    where lane = any(array(select lane from orphan)) returning lane
)
select lane::text as lane from freed;

-- name: drop_hollow
-- A lane whose delivery is finished, or gone: then whoever holds it has nothing to settle.
with hollow as (
    select a.lane from duly.agenda a
    left join lateral (
        select d.state from duly.deliveries d where d.id = a.delivery offset 0
    ) d on true
    where a.lane > :after::uuid and a.lane <= :until::uuid
      and (a.token is null or d.state is null) and d.state is distinct from 'pending'
      and a.position is null
    for update of a skip locked
), dropped as (
    delete from duly.agenda where lane = any(array(select lane from hollow)) returning lane
)
select lane::text as lane from dropped;

-- name: forget
-- Whatever a namespace has in the slice, unfinished work too.
with gone as (
    delete from duly.deliveries
    where id > :after::uuid and id <= :until::uuid and namespace = :namespace
    returning id
), lanes as (
    delete from duly.agenda where lane = any(array(select id from gone))
), history as (
    delete from duly.attempts where delivery = any(array(select id from gone))
)
select id::text as id from gone;

-- name: forget_names
with workers as (
    delete from duly.workers where namespace = :namespace
), gates as (
    delete from duly.gates
    where target in (select id from duly.targets where namespace = :namespace)
), endpoints as (
    delete from duly.endpoints where namespace = :namespace
)
delete from duly.targets where namespace = :namespace;
