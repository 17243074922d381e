-- name: matching
-- The conditions of a filter: included in other statements, never run by itself. A dead letter that
-- was retried since `until` and died again does not match, even if its worker's clock was behind.
d.namespace = :namespace
  and d.dead_at >= :since::timestamptz and d.dead_at <= coalesce(:until::timestamptz, 'infinity')
  and (:ids::uuid[] is null or d.id = any(:ids::uuid[]))
  and (:fingerprint::text is null or coalesce(d.fingerprint, 'unknown') = :fingerprint::text)
  and (:reason::text is null or d.reason = :reason::text)
  and (:target::text is null or d.target = (
      select id from duly.targets where namespace = :namespace and name = :target::text))
  and (:stream::text is null or d.stream = :stream::text)
  and (:schedule::text is null or d.occasion::json ->> 'schedule' = :schedule::text)
  and (:tag::text is null or d.tags @> jsonb_build_array(:tag::text))
  and (:text::text is null or strpos(d.error, :text::text) > 0
       or strpos(coalesce(d.key, d.unique_key), :text::text) > 0
       or strpos(convert_from(d.payload, 'UTF8'), :text::text) > 0)
  and (:disposition::text is null or d.disposition = :disposition::text
       or :disposition::text = 'open' and coalesce(d.disposition, 'left') in ('left', 'recovering'))
  and (:until::timestamptz is null or (
      select t.outcome from duly.attempts t
      where t.delivery = d.id and t.outcome = 'retried' and t.finished_at >= :until::timestamptz
      limit 1) is null)

-- name: page
select b.* from (
    select d.id from duly.deliveries d
    where {matching} and (d.dead_at, d.id) < (:before_at::timestamptz, :before::uuid)
    order by d.dead_at desc, d.id desc limit :limit
) m join duly.booked b on b.id = m.id
order by b.dead_at desc, b.id desc;

-- name: floor
-- The dead_at of the last row that a page searches.
select d.dead_at from duly.deliveries d
where d.namespace = :namespace and d.dead_at is not null
  and (d.dead_at, d.id) < (:before_at::timestamptz, :before::uuid)
order by d.dead_at desc, d.id desc offset :most limit 1;

-- name: count
select count(*) as many from duly.deliveries d where {matching};

-- name: known
-- The conditions that the index of groups can check: included in other statements, like the next
-- two.
d.namespace = :namespace and d.dead_at >= :since::timestamptz
  and (:fingerprint::text is null or coalesce(d.fingerprint, 'unknown') = :fingerprint::text)
  and (:reason::text is null or d.reason = :reason::text)
  and (:target::text is null or d.target = (
      select id from duly.targets where namespace = :namespace and name = :target::text))

-- name: alike
select d.fingerprint, d.reason, d.target, count(*) as many,
       min(d.dead_at) as first_at, max(d.dead_at) as last_at
from duly.deliveries d

-- name: grouped
-- The example is the newest dead letter of the group.
select g.fingerprint, g.reason, g.many, g.first_at, g.last_at, g.targets, (
    select x.error from duly.deliveries x
    where x.namespace = :namespace and x.dead_at = g.last_at
      and coalesce(x.fingerprint, 'unknown') = g.fingerprint and x.reason is not distinct from g.reason
    limit 1
) as error
from (
    select coalesce(s.fingerprint, 'unknown') as fingerprint, s.reason, sum(s.many)::bigint as many,
           min(s.first_at) as first_at, max(s.last_at) as last_at,
           jsonb_agg(distinct t.name)::text as targets
    from s join duly.targets t on t.id = s.target group by 1, 2
) g
order by g.many desc, g.last_at desc limit :limit

-- name: groups
with s as ({alike} where {known} group by 1, 2, 3) {grouped};

-- name: groups_among
-- The same for filters that the index cannot check.
with s as ({alike} where {matching} group by 1, 2, 3) {grouped};

-- name: apart
-- Dead letters without a position in a stream, oldest first.
select d.id::text as id, d.dead_at from duly.deliveries d
where {matching} and d.position is null
  and (d.dead_at, d.id) > (:after_at::timestamptz, :after::uuid)
order by d.dead_at, d.id limit :limit;

-- name: in_line
-- Dead letters with a position in a stream, in order of position.
select d.id::text as id, d.stream, d.position from duly.deliveries d
where {matching} and d.position is not null
  and (d.stream, d.position, d.id) > (:after_stream, :after_position::bigint, :after::uuid)
order by d.stream, d.position, d.id limit :limit;

-- name: wait
-- Locks one dead letter, waiting for who has it locked; the statements below skip locked ones, and
-- would take it for one that is not dead. The lock of a stream comes before those of its deliveries.
select id::text as id from duly.deliveries
where id = :id::uuid and namespace = :namespace and state = 'dead'
  and (position is null or :in_stream)
for update;

-- name: retry
-- Dead letters without a position in a stream, due one after the other; for the others see
-- queue.sql.
with raised as (
    update duly.deliveries d
    set state = 'pending', attempt = case when :reset then 0 else d.attempt end, dead_at = null,
        finished_at = null, fingerprint = null
    where d.id = any(array(
        select id from duly.deliveries
        where id = any(:ids::uuid[]) and namespace = :namespace and state = 'dead'
          and position is null and disposition is distinct from 'given_up'
        order by id for update skip locked
    )) and d.state = 'dead'
    returning d.id, d.target, d.priority, d.schedule, d.occasion, d.attempt, d.turn
), laid as (
    insert into duly.agenda (lane, delivery, target, priority, due_at, schedule, turn)
    select id, id, case when turn is null then target else -target end, priority,
           coalesce(:now::timestamptz, now())
               + (row_number() over (order by id) - 1) * :spread::double precision * interval '1 second',
           case when occasion::json ->> 'overlap' <> 'allow' then schedule end, turn
    from raised
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
    select id, attempt, 'retried', coalesce(:now::timestamptz, now()), :why, :note from raised
)
select id::text as id from raised;

-- name: edit
-- A delivery that was retried in this transaction, so that no worker has seen it yet; the history
-- keeps its old payload.
with before as materialized (
    select id, attempt, payload from duly.deliveries where id = :id::uuid and state = 'pending'
    for update
), edited as (
    update duly.deliveries d set payload = :payload::bytea from before b where d.id = b.id
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at, answer)
    select id, attempt, 'edited', coalesce(:now::timestamptz, now()),
           '{"payload":' || convert_from(payload, 'UTF8') || '}'
    from before
)
select payload from before;

-- name: discard
-- All except those in a stream's queue, which may block it (see queue.sql).
with discarded as (
    update duly.deliveries d
    set state = 'cancelled', dead_at = null, fingerprint = null,
        finished_at = coalesce(:now::timestamptz, now())
    where d.id = any(array(
        select id from duly.deliveries
        where id = any(:ids::uuid[]) and namespace = :namespace and state = 'dead'
          and lane is null
        order by id for update skip locked
    )) and d.state = 'dead' and d.lane is null
    returning d.id, d.attempt
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
    select id, attempt, 'discarded', coalesce(:now::timestamptz, now()), 'operator', :note
    from discarded
)
select id::text as id from discarded;

-- name: dispose
-- Holds dead letters, or gives them up; of those in a stream's queue see Members.
with disposed as (
    update duly.deliveries d set disposition = :disposition, revive_at = null
    where d.id = any(array(
        select id from duly.deliveries
        where id = any(:ids::uuid[]) and namespace = :namespace and state = 'dead'
        order by id for update skip locked
    )) and d.state = 'dead' and coalesce(d.disposition, 'left') not in ('given_up', :disposition)
    returning d.id, d.attempt
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
    select id, attempt, :disposition, coalesce(:now::timestamptz, now()), :why, :note
    from disposed
)
select id::text as id from disposed;

-- name: let_go
-- Held dead letters are open again, and policies apply to them.
with opened as (
    update duly.deliveries d set disposition = null, revivals = null
    where d.id = any(array(
        select id from duly.deliveries
        where id = any(:ids::uuid[]) and namespace = :namespace and disposition = 'held'
        order by id for update skip locked
    )) and d.state = 'dead' and d.disposition = 'held'
    returning d.id, d.attempt
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at, reason)
    select id, attempt, 'hold_released', coalesce(:now::timestamptz, now()), 'operator'
    from opened
)
select id::text as id from opened;

-- name: crashed
-- Unfinished deliveries whose workers died while they held them, most crashes first.
select d.id::text as id, t.name as target, d.attempt, a.crashes, d.retry from duly.agenda a
join duly.deliveries d on d.id = a.delivery
join duly.targets t on t.id = d.target
where a.crashes > 0 and d.state = 'pending' and d.namespace = :namespace
order by a.crashes desc, d.attempt desc, d.id limit :limit;

-- name: suspects
-- Unfinished deliveries that failed or whose workers died, most crashes first.
select d.id::text as id, t.name as target, d.attempt, a.crashes, d.retry from duly.agenda a
join duly.deliveries d on d.id = a.delivery
join duly.targets t on t.id = d.target
where (a.crashes > 0 or d.attempt > 0) and d.state = 'pending' and d.namespace = :namespace
order by a.crashes desc, d.attempt desc, d.id limit :limit;
