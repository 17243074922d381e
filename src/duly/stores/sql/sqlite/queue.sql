-- Operators' changes of streams, each in a transaction during which nothing else is written.

-- name: find
select lane from duly.streams where namespace = :namespace and name = :name;

-- name: lock
select lane from duly.streams where namespace = :namespace and name = :name;

-- name: open
-- As lock, creating the stream if it does not exist; its counter is raised to the given one.
insert into duly.streams (lane, namespace, name, counter, used_at)
values (coalesce((select min(lane) from duly.streams), 0) - 1, :namespace, :name, :counter, :now)
on conflict (namespace, name) do update set counter = max(counter, excluded.counter)
returning lane, counter;

-- name: hold
select lane from duly.agenda where lane = :lane;

-- name: facts
-- Each stream with its head, and how many wait behind it, counted up to a limit. The lane may refer
-- to a delivery that has left the queue: that is not a head.
select s.lane, s.name, s.on_failure, s.block_for, s.paused_at, s.reason as pause_reason,
       a.unblocks_at,
       d.id as head, a.position, a.token, a.due_at, a.halted, a.halted_at, a.replay_from,
       d.state as head_state, d.attempt, d.reason, d.error, (
           select count(*) from (
               select 1 from duly.deliveries m
               where m.lane = a.lane and m.state = 'pending' and m.number <> a.delivery
                 and m.position >= min(a.position, coalesce(a.replay_from, a.position))
               limit :most)
       ) as waiting, (
           select m.accepted_at from duly.deliveries m
           where m.lane = a.lane and m.state = 'pending' and m.number <> a.delivery
             and m.position >= min(a.position, coalesce(a.replay_from, a.position)) and :most > 0
           order by m.position limit 1
       ) as oldest_at
from duly.streams s
left join duly.agenda a on a.lane = s.lane
left join duly.deliveries d
    on d.lane = a.lane and d.position = a.position and d.number = a.delivery
where s.lane in (select value from json_each(:lanes)) order by s.name;

-- name: page
select lane from duly.streams
where namespace = :namespace and name > :after and (paused_at is not null or not :paused)
order by name limit :limit;

-- name: blocked
select s.lane from duly.agenda a join duly.streams s on s.lane = a.lane
where (a.halted is not null or a.crashes > 0) and a.halted = 'blocked' and s.namespace = :namespace and s.name > :after
order by s.name limit :limit;

-- name: change
update duly.streams
set on_failure = :on_failure, block_for = :block_for, paused_at = :paused_at, reason = :pause_reason
where lane = :lane;

-- name: first_failure
-- When the head failed for the first time since it was accepted or retried with all its attempts.
select max(finished_at) as failed_at from duly.attempts
where delivery = :id and attempt = 1 and outcome in ('retry', 'dead');

-- name: limit
update duly.agenda set unblocks_at = :unblocks_at where lane = :lane;

-- name: limited
-- Streams whose failed head blocks them for a limited time, those that end first. A paused stream
-- waits to be resumed, and one that is held for its head's attempt.
select s.namespace, s.name, a.unblocks_at, :now as seen_at
from duly.agenda a join duly.streams s on s.lane = a.lane
where a.unblocks_at is not null and s.block_for is not null and a.token is null and a.halted is not 'paused'
  and (:served is null or s.namespace in (select value from json_each(:served)))
order by a.unblocks_at limit :limit;

-- name: due
-- When a delivery of a queue is due: after a failure when its retry is due, and at the latest when
-- it expires. Included in other statements, never run by itself.
min(coalesce((
    select t.next_at from duly.attempts t where t.delivery = d.id
    order by t.finished_at desc, t.next_at nulls first limit 1
), d.due_at), coalesce(d.expires_at, 253402214400000000))

-- name: next
-- The first pending delivery at or after a position.
select d.id, d.position, d.target, d.priority, {due} as due_at
from duly.deliveries d
where d.lane = :lane and d.position >= :since and d.state = 'pending'
order by d.position limit 1;

-- name: lay
-- Makes a delivery the head. If it was the head already, it keeps its priority and crashes.
insert into duly.agenda as a
    (lane, delivery, target, priority, due_at, position, halted, halted_at)
values (:lane, (select number from duly.deliveries where id = :id), :target, :priority, :due_at,
        :position, :halted, :halted_at)
on conflict (lane) do update
set delivery = excluded.delivery, target = excluded.target, due_at = excluded.due_at,
    position = excluded.position, halted = excluded.halted, halted_at = excluded.halted_at,
    replay_from = null,
    unblocks_at = iif(a.delivery = excluded.delivery, a.unblocks_at, null),
    priority = iif(a.delivery = excluded.delivery, a.priority, excluded.priority),
    crashes = iif(a.delivery = excluded.delivery, a.crashes, 0)
where a.token is null;

-- name: drop
delete from duly.agenda where lane = :lane and token is null;

-- name: halt
-- Pauses or resumes a lane; a worker that holds it finishes what it claimed.
update duly.agenda set halted = :halted, halted_at = :halted_at, due_at = :due_at
where lane = :lane;

-- name: replay
update duly.agenda set replay_from = min(coalesce(replay_from, :position), :position)
where lane = :lane;

-- name: members
-- The given deliveries that have a position in a stream, in order of position.
select id, stream, lane, position, state, disposition
from duly.deliveries
where id in (select value from json_each(:ids)) and namespace = :namespace
  and position is not null
order by stream, position, id;

-- name: before
-- How many pending deliveries are between two positions, counted up to a limit.
select count(*) as many from (
    select 1 from duly.deliveries
    where lane = :lane and position >= :since and position < :position and state = 'pending'
    limit :limit
) m;

-- name: behind_run
-- The position of the first pending delivery behind a run that starts at a position.
select position from duly.deliveries
where lane = :lane and position >= :since and state = 'pending'
order by position limit 1 offset :run;

-- name: taken
-- The positions among these that other deliveries have.
select position from duly.deliveries
where lane = :lane and position in (select value from json_each(:positions))
  and id not in (select value from json_each(:ids));

-- name: place
update duly.deliveries set position = :position where id = :id and state = 'dead';

-- name: cancel
insert into duly.attempts (delivery, attempt, outcome, finished_at)
select id, attempt, 'cancelled', :now from duly.deliveries where id = :id and state = 'pending';
update duly.deliveries set state = 'cancelled', finished_at = :now, lane = null
where id = :id and state = 'pending'
returning id;

-- name: hurry
insert into duly.attempts (delivery, attempt, outcome, finished_at)
values (:id, 0, 'retried', :now)
returning delivery as id;

-- name: raise
insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
select id, iif(:reset, 0, attempt), 'retried', :now, :why, :note from duly.deliveries
where id in (select value from json_each(:ids)) and state = 'dead';
-- After a retry by an operator, the next failure begins another block.
update duly.agenda set unblocks_at = null
where lane = :lane and unblocks_at is not null and :why is null and delivery in (
    select number from duly.deliveries where id in (select value from json_each(:ids)));
update duly.deliveries
set state = 'pending', attempt = iif(:reset, 0, attempt), dead_at = null, finished_at = null,
    fingerprint = null, lane = :lane
where id in (select value from json_each(:ids)) and state = 'dead'
returning id;

-- name: apart
insert into duly.agenda (lane, delivery, target, priority, due_at, schedule)
select number, number, target, priority, :due_at,
       iif(occasion ->> 'overlap' <> 'allow', schedule, null)
from duly.deliveries where id = :id and state = 'pending';
update duly.deliveries set lane = null where id = :id and state = 'pending'
returning id;

-- name: followers
-- The deliveries that wait behind the head, in order, up to a limit.
select d.id from duly.agenda a join duly.deliveries d on d.lane = a.lane
where a.lane = :lane and d.state = 'pending' and d.number <> a.delivery
  and d.position >= min(a.position, coalesce(a.replay_from, a.position))
order by d.position limit :limit;

-- name: set_apart
-- Moves deliveries behind the head out of the queue, into a separate lane each.
insert into duly.agenda (lane, delivery, target, priority, due_at, schedule)
select d.number, d.number, d.target, d.priority, {due},
       iif(d.occasion ->> 'overlap' <> 'allow', d.schedule, null)
from duly.deliveries d
where d.id in (select value from json_each(:ids)) and d.lane = :lane and d.state = 'pending';
update duly.deliveries set lane = null
where id in (select value from json_each(:ids)) and lane = :lane and state = 'pending'
returning id;

-- name: leave
update duly.deliveries set lane = null where id = :id
returning id;

-- name: make_dead
insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
select id, attempt, 'dead_lettered', :now, 'operator', :note
from duly.deliveries where id = :id and state = 'pending';
update duly.deliveries
set state = 'dead', dead_at = :now, finished_at = :now, lane = null, reason = 'operator',
    error = coalesce(:note, error), fingerprint = :fingerprint
where id = :id and state = 'pending'
returning id;

-- name: discard
insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
select id, attempt, 'discarded', :now, 'operator', :note
from duly.deliveries where id = :id and state = 'dead';
update duly.deliveries
set state = 'cancelled', dead_at = null, fingerprint = null, lane = null, finished_at = :now
where id = :id and state = 'dead'
returning id;
