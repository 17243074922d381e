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
select d.id, d.state, t.name as target, d.address, d.payload, d.key, d.unique_key,
       coalesce(d.replaced, 0) as replaced, d.replaced_at, d.priority, d.tags,
       d.retry, d.stream, d.position, d.lane is not null as in_line,
       iif(a.halted = 'blocked', a.halted_at, null) as blocked_at,
       a.unblocks_at, d.on_failure, d.turn,
       coalesce(s.name, f.name) as schedule, f.number as former, d.occurrence, d.occasion, d.due_at,
       iif(a.halted is null and a.due_at < 253402214400000000, nullif(a.due_at, d.due_at), null)
           as next_at, d.accepted_at,
       d.expires_at, d.attempt, iif(d.state = 'dead', d.crashes, a.crashes) as crashes,
       d.started_at, d.finished_at, d.dead_at, d.reason, d.error, d.fingerprint,
       case when d.disposition in ('held', 'given_up') then d.disposition end as disposition,
       coalesce(d.revivals, 0) as revivals, d.generation
from duly.deliveries d
cross join duly.targets t on t.id = d.target
left join duly.schedules s on s.id = d.schedule
left join duly.former_schedules f on f.number = d.schedule
left join duly.agenda a on a.lane = coalesce(d.lane, d.number) and a.delivery = d.number

-- name: wanted
-- Unfinished and dead deliveries, or all. A schedule's latest occurrence is always exported:
-- without it the sweep would create it again.
d.namespace = :namespace and (:everything or d.state in ('pending', 'dead') or exists (
    select 1 from duly.progress p where p.schedule = d.schedule and p.made_id = d.id))

-- name: slice
-- The last lane and position of the slice after the given ones; no row at the end.
select s.lane, s.position from (
    select lane, position from duly.deliveries
    where lane is not null
      and (lane, position) > (coalesce(:lane, -9223372036854775807), :position)
    order by lane, position limit :batch
) s order by s.lane desc, s.position desc limit 1;

-- name: in_line
-- Deliveries in the queues of streams, each stream's in order.
{facts}
where d.lane is not null
  and (d.lane, d.position) > (coalesce(:lane, -9223372036854775807), :position)
  and (d.lane, d.position) <= (:until_lane, :until_position) and {wanted}
order by d.lane, d.position, d.id;

-- name: apart
-- All other deliveries.
{facts}
where d.id > :after and d.id <= :until and d.lane is null and {wanted}
order by d.id;

-- name: steps
select delivery, name, attempt, done_at, result from duly.steps
where delivery in (select value from json_each(:ids)) order by delivery, done_at, name;

-- name: history
select delivery, attempt, outcome, started_at, finished_at, next_at, reason, error, answer,
       traceback, exception
from duly.attempts where delivery in (select value from json_each(:ids))
order by delivery, finished_at, attempt, outcome;

-- name: schedules
-- The numbers of schedules.
select id, name from duly.schedules
where namespace = :namespace and name in (select value from json_each(:names));

-- name: remove
-- Schedules that were removed before the export: their deliveries are found by the schedules'
-- names. Runs once for each.
insert into duly.former_schedules (number, namespace, name) values (:number, :namespace, :name)
on conflict do nothing;

-- name: known
-- Existing deliveries with these ids, keys or occurrences. Runs once for each.
select id, namespace, null as key, null as schedule, null as occurrence, target, null as payload,
       address
from duly.deliveries where id = :id
union all
select id, namespace, key, null, null, target, payload, address
from duly.deliveries where namespace = :namespace and key = :key
union all
select id, namespace, null, schedule, occurrence, target, null, address
from duly.deliveries where schedule = :schedule and occurrence = :occurrence;

-- name: open
-- Streams to append to, created if needed. Runs once for each.
insert into duly.streams (lane, namespace, name, counter, used_at)
values (coalesce((select min(lane) from duly.streams), 0) - 1, :namespace, :name, 0, :now)
on conflict (namespace, name) do update set used_at = excluded.used_at
returning name, lane, counter, paused_at;

-- name: reach
update duly.streams set counter = max(counter, :counter) where lane = :lane;

-- name: deliver
-- A delivery that conflicts with an existing one is not written, and not returned. A trigger adds
-- pending deliveries that are not in a stream's queue to the agenda.
insert into duly.deliveries
    (id, lane, target, priority, attempt, state, namespace, stream, position, key, address,
     schedule, occurrence, occasion, due_at, accepted_at, expires_at, started_at, finished_at,
     dead_at, tags, retry, reason, error, payload, on_failure, fingerprint, crashes,
     disposition, revivals, generation, unique_key, replaced, replaced_at, turn)
values (:id, :lane, :target, :priority, :attempt, :state, :namespace, :stream, :position, :key,
        :address, :schedule, :occurrence, :occasion, :due_at, :accepted_at, :expires_at,
        :started_at, :finished_at, :dead_at, :tags, :retry, :reason, :error, :payload, :on_failure,
        :fingerprint, :crashes, :disposition, nullif(:revivals, 0), :generation, :unique_key,
        nullif(:replaced, 0), :replaced_at, :turn)
on conflict do nothing
returning id;

-- name: lay
-- Restores the lane of each pending delivery that is not in a stream's queue.
update duly.agenda set priority = :priority, due_at = :due_at, crashes = :crashes
where lane = (select number from duly.deliveries where id = :id);

-- name: lead
-- A head for each stream that has none. A dead letter that blocks becomes the head even if others
-- are before it: those were put back while it blocked.
insert into duly.agenda as a
    (lane, delivery, target, priority, due_at, crashes, position, replay_from, halted, halted_at,
     unblocks_at)
select :lane, number, target, :priority, :due_at, :crashes, position, :replay_from, :halted,
       :halted_at, :unblocks_at
from duly.deliveries where id = :id
on conflict (lane) do update
set delivery = excluded.delivery, target = excluded.target, priority = excluded.priority,
    due_at = excluded.due_at, crashes = excluded.crashes, position = excluded.position,
    replay_from = min(a.position, coalesce(a.replay_from, a.position)), halted = excluded.halted,
    halted_at = excluded.halted_at, unblocks_at = excluded.unblocks_at
where excluded.halted = 'blocked' and a.halted is not 'blocked' and a.token is null;

-- name: remember
insert into duly.attempts
    (delivery, attempt, outcome, started_at, finished_at, next_at, reason, error, answer, traceback,
     exception)
values (:delivery, :attempt, :outcome, :started_at, :finished_at, :next_at, :reason, :error,
        :answer, :traceback, :exception);

-- name: record
insert into duly.steps (delivery, name, attempt, done_at, result)
values (:delivery, :name, :attempt, :done_at, :result)
on conflict do nothing;
