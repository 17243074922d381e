-- An export reads in one snapshot; an import writes each batch in one transaction.

-- name: streams
-- Streams that are paused or have a policy.
select name, on_failure, block_for, paused_at, reason from duly.streams
where namespace = :namespace and name > :after
  and (on_failure is not null or block_for is not null or paused_at is not null)
order by name limit :limit;

-- name: policies
select reason || ' ' || target as name, reason, nullif(target, '') as target, tries,
       cool_down as "after", ending as "then" from duly.recovery_policies
where namespace = :namespace and reason || ' ' || target > :after
order by 1 limit :limit;

-- name: facts
select d.id::text as id, d.state, t.name as target, d.address, d.payload, d.key,
       d.unique_key, coalesce(d.replaced, 0) as replaced, d.replaced_at, d.priority, d.tags,
       d.retry, d.stream, d.position, d.lane is not null as in_line,
       case when a.halted = 'blocked' then a.halted_at end as blocked_at,
       a.unblocks_at, d.on_failure, d.turn,
       coalesce(s.name, f.name) as schedule, f.number as former, d.occurrence, d.occasion, d.due_at,
       case when a.halted is null and a.due_at < '9999-12-31Z'::timestamptz
            then nullif(a.due_at, d.due_at) end as next_at, d.accepted_at,
       d.expires_at, d.attempt,
       case when d.state = 'dead' then d.crashes else a.crashes end as crashes,
       d.started_at, d.finished_at, d.dead_at, d.reason, d.error, d.fingerprint,
       case when d.disposition in ('held', 'given_up') then d.disposition end as disposition,
       coalesce(d.revivals, 0) as revivals, d.generation
from duly.deliveries d
cross join lateral (select name from duly.targets t where t.id = d.target offset 0) t
left join lateral (select name from duly.schedules s where s.id = d.schedule offset 0) s on true
left join lateral (
    select number, name from duly.former_schedules f where f.number = d.schedule offset 0
) f on true
left join lateral (
    select * from duly.agenda a
    where a.lane = coalesce(d.lane, d.id) and a.delivery = d.id offset 0
) a on true

-- name: wanted
-- Unfinished and dead deliveries, or all. A schedule's latest occurrence is always exported:
-- without it the sweep would create it again.
d.namespace = :namespace and (:everything or d.state in ('pending', 'dead') or exists (
    select from duly.progress p where p.schedule = d.schedule and p.made_id = d.id))

-- name: slice
-- The last lane and position of the slice after the given ones; no row at the end.
select s.lane::text as lane, s.position from (
    select lane, position from duly.deliveries
    where lane is not null and (lane, position)
        > (coalesce(:lane::uuid, '00000000-0000-0000-0000-000000000000'), :position::bigint)
    order by lane, position limit :batch
) s order by s.lane desc, s.position desc limit 1;

-- name: in_line
-- Deliveries in the queues of streams, each stream's in order.
{facts}
where d.lane is not null and (d.lane, d.position)
        > (coalesce(:lane::uuid, '00000000-0000-0000-0000-000000000000'), :position::bigint)
  and (d.lane, d.position) <= (:until_lane::uuid, :until_position::bigint) and {wanted}
order by d.lane, d.position, d.id;

-- name: apart
-- All other deliveries.
{facts}
where d.id > :after::uuid and d.id <= :until::uuid and d.lane is null and {wanted}
order by d.id;

-- name: steps
select delivery::text as delivery, name, attempt, done_at, result from duly.steps
where delivery = any(:ids::uuid[]) order by delivery, done_at, name;

-- name: history
select delivery::text as delivery, attempt, outcome, started_at, finished_at, next_at, reason,
       error, answer, traceback, exception
from duly.attempts where delivery = any(:ids::uuid[])
order by delivery, finished_at, attempt, outcome;

-- name: schedules
-- The numbers of schedules.
select id, name from duly.schedules where namespace = :namespace and name = any(:names::text[]);

-- name: remove
-- Schedules that were removed before the export: their deliveries are found by the schedules'
-- names.
insert into duly.former_schedules (number, namespace, name)
select number, :namespace, name from unnest(:number::bigint[], :name::text[]) as g(number, name)
order by number
on conflict do nothing;

-- name: known
-- Existing deliveries with these ids, keys or occurrences. Each is looked up separately: a query
-- plan made for an empty ledger may read all of it.
select d.id::text as id, d.namespace, null as key, null::bigint as schedule, null as occurrence,
       d.target, null::bytea as payload, d.address
from unnest(:id::uuid[]) as g(id) cross join lateral (
    select * from duly.deliveries d where d.id = g.id offset 0
) d
union all
select d.id::text, d.namespace, d.key, null, null, d.target, d.payload, d.address
from unnest(:key::text[]) as g(key) cross join lateral (
    select * from duly.deliveries d where d.namespace = :namespace and d.key = g.key offset 0
) d
union all
select d.id::text, d.namespace, null, g.schedule, g.occurrence, d.target, null, d.address
from unnest(:schedule::bigint[], :occurrence::text[]) as g(schedule, occurrence)
cross join lateral (
    select * from duly.deliveries d
    where d.schedule = g.schedule and d.occurrence = g.occurrence offset 0
) d;

-- name: open
-- Streams to append to, created if needed and locked until the commit, as by accept.
insert into duly.streams (namespace, name, counter, used_at)
select :namespace, name, 0, coalesce(:now::timestamptz, now())
from unnest(:name::text[]) as name order by name
on conflict (namespace, name) do update set used_at = excluded.used_at
returning name, lane::text as lane, counter, paused_at;

-- name: reach
update duly.streams s set counter = greatest(s.counter, g.counter)
from unnest(:lane::uuid[], :counter::bigint[]) as g(lane, counter)
where s.lane = g.lane;

-- name: deliver
-- A delivery that conflicts with an existing one is not written, and not returned.
insert into duly.deliveries
    (id, lane, target, priority, attempt, state, namespace, stream, position, key, address,
     schedule, occurrence, occasion, due_at, accepted_at, expires_at, started_at, finished_at,
     dead_at, tags, retry, reason, error, payload, on_failure, fingerprint, crashes,
     disposition, revivals, generation, unique_key, replaced, replaced_at, turn)
select id, lane, target, priority, attempt, state, :namespace, stream, position, key, address,
       schedule, occurrence, occasion, due_at, accepted_at, expires_at, started_at, finished_at,
       dead_at, tags::jsonb, retry, reason, error, payload, on_failure, fingerprint, crashes,
       disposition, nullif(revivals, 0), generation, unique_key, nullif(replaced, 0), replaced_at,
       turn
from unnest(
    :id::uuid[], :lane::uuid[], :target::integer[], :priority::smallint[], :attempt::smallint[],
    :state::text[], :stream::text[], :position::bigint[], :key::text[], :address::text[],
    :schedule::bigint[], :occurrence::text[], :occasion::text[], :due_at::timestamptz[],
    :accepted_at::timestamptz[], :expires_at::timestamptz[], :started_at::timestamptz[],
    :finished_at::timestamptz[], :dead_at::timestamptz[], :tags::text[], :retry::text[],
    :reason::text[], :error::text[], :payload::bytea[], :on_failure::text[], :fingerprint::text[],
    :crashes::smallint[], :disposition::text[], :revivals::integer[], :generation::text[],
    :unique_key::text[], :replaced::integer[], :replaced_at::timestamptz[], :turn::text[]
) as t(id, lane, target, priority, attempt, state, stream, position, key, address, schedule,
       occurrence, occasion, due_at, accepted_at, expires_at, started_at, finished_at, dead_at,
       tags, retry, reason, error, payload, on_failure, fingerprint, crashes, disposition,
       revivals, generation, unique_key, replaced, replaced_at, turn)
on conflict do nothing
returning id::text as id;

-- name: lay
-- A lane for each pending delivery that is not in a stream's queue.
insert into duly.agenda (lane, delivery, target, priority, due_at, crashes, schedule, turn)
select d.id, d.id, case when d.turn is null then d.target else -d.target end, g.priority,
       g.due_at, g.crashes, case when d.occasion::json ->> 'overlap' <> 'allow' then d.schedule end,
       d.turn
from unnest(:id::uuid[], :priority::smallint[], :due_at::timestamptz[], :crashes::smallint[])
    as g(id, priority, due_at, crashes)
cross join lateral (select * from duly.deliveries d where d.id = g.id offset 0) d;

-- name: lead
-- A head for each stream that has none. A dead letter that blocks becomes the head even if others
-- are before it: those were put back while it blocked.
insert into duly.agenda as a
    (lane, delivery, target, priority, due_at, crashes, position, replay_from, halted, halted_at,
     unblocks_at)
select g.lane, d.id, d.target, g.priority, g.due_at, g.crashes, d.position, g.replay_from, g.halted,
       g.halted_at, g.unblocks_at
from unnest(
    :id::uuid[], :lane::uuid[], :priority::smallint[], :due_at::timestamptz[],
    :crashes::smallint[], :replay_from::bigint[], :halted::text[], :halted_at::timestamptz[],
    :unblocks_at::timestamptz[]
) as g(id, lane, priority, due_at, crashes, replay_from, halted, halted_at, unblocks_at)
cross join lateral (select * from duly.deliveries d where d.id = g.id offset 0) d
on conflict (lane) do update
set delivery = excluded.delivery, target = excluded.target, priority = excluded.priority,
    due_at = excluded.due_at, crashes = excluded.crashes, position = excluded.position,
    replay_from = least(a.position, a.replay_from), halted = excluded.halted,
    halted_at = excluded.halted_at, unblocks_at = excluded.unblocks_at
where excluded.halted = 'blocked' and a.halted is distinct from 'blocked' and a.token is null;

-- name: remember
insert into duly.attempts
    (delivery, attempt, outcome, started_at, finished_at, next_at, reason, error, answer, traceback,
     exception)
select * from unnest(
    :delivery::uuid[], :attempt::smallint[], :outcome::text[], :started_at::timestamptz[],
    :finished_at::timestamptz[], :next_at::timestamptz[], :reason::text[], :error::text[],
    :answer::text[], :traceback::text[], :exception::text[]);

-- name: record
insert into duly.steps (delivery, name, attempt, done_at, result)
select * from unnest(
    :delivery::uuid[], :name::text[], :attempt::smallint[], :done_at::timestamptz[],
    :result::text[])
on conflict do nothing;
