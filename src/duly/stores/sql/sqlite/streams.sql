-- name: accept
-- As ledger.accept, for requests of which some belong to a stream or a batch, or have a turn: id,
-- target, priority, key, address, due_at, after, expires_at, tags, retry, payload, stream,
-- on_failure, in_batch, turn. A paused stream gets a lane too, so that it is visible, but it is never due.
insert into duly.streams (lane, namespace, name, counter, used_at)
select coalesce((select min(lane) from duly.streams), 0) - row_number() over (order by stream),
       :namespace, stream, many, :now
from (
    select value ->> 11 as stream, count(*) as many from json_each(:batch)
    where value ->> 11 is not null group by 1
) where true
on conflict (namespace, name) do update
set counter = counter + excluded.counter, used_at = excluded.used_at;
insert into duly.deliveries
    (id, target, priority, namespace, key, address, due_at, accepted_at, expires_at, tags, retry,
     payload, stream, on_failure, lane, position, batch, turn)
select value ->> 0, value ->> 1, value ->> 2, :namespace, value ->> 3, value ->> 4,
       coalesce(value ->> 5, :now + cast(value ->> 6 as real) * 1000000, :now),
       :now, value ->> 7, value ->> 8, value ->> 9, cast(value ->> 10 as blob),
       value ->> 11, value ->> 12, s.lane,
       s.counter - count(*) over (partition by value ->> 11)
           + row_number() over (partition by value ->> 11 order by b.key), value ->> 13,
       value ->> 14
from json_each(:batch) b
left join duly.streams s on s.namespace = :namespace and s.name = value ->> 11
where true order by b.key
on conflict do nothing;
select changes() as stored, :now as accepted_at;
insert into duly.agenda (lane, delivery, target, priority, due_at, position, halted, halted_at)
select d.lane, d.number, d.target, d.priority,
       iif(s.paused_at is null, min(d.due_at, coalesce(d.expires_at, d.due_at)), 253402214400000000),
       min(d.position),
       iif(s.paused_at is null, null, 'paused'), s.paused_at
from json_each(:batch) b
join duly.deliveries d on d.id = b.value ->> 0
join duly.streams s on s.lane = d.lane
where d.state = 'pending'
  and not exists (select 1 from duly.agenda a where a.lane = d.lane)
group by d.lane;

-- name: policies
select lane, name, on_failure, block_for from duly.streams
where lane in (select value from json_each(:lanes));

-- name: limit
-- Heads that failed and block their streams for a limited time, counted from the first failure.
update duly.agenda as a
set unblocks_at = :now + cast(s.block_for * 1000000 as integer)
from duly.streams s
where a.lane in (select value from json_each(:lanes)) and s.lane = a.lane and a.token is null
  and a.unblocks_at is null and s.block_for is not null;

-- name: finish
-- Heads without followers, the usual end of a short stream, all rows at once: lane, token,
-- started_at, finished_at, position, answer. It returns the lanes to which it did not apply; these are left
-- to advance.
select json_group_array(json_array(o.value ->> 0, o.value ->> 1)) as "packed: lane token"
from json_each(:batch) o where not exists (
    select 1 from duly.agenda a join duly.streams s on s.lane = a.lane and s.counter = a.position
    where a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1 and a.position = o.value ->> 4
      and a.replay_from is null);
update duly.deliveries as d
set state = 'completed', attempt = d.attempt + 1, token = o.token,
    started_at = o.started_at, finished_at = o.finished_at, reason = null, error = null
from (
    select value ->> 0 as lane, value ->> 1 as token, value ->> 2 as started_at,
           value ->> 3 as finished_at, value ->> 4 as position
    from json_each(:batch)
) o
join duly.agenda a on a.lane = o.lane and a.token + 0 = o.token and a.position = o.position
    and a.replay_from is null
join duly.streams s on s.lane = a.lane and s.counter = a.position
where d.number = a.delivery;
insert into duly.attempts (delivery, attempt, outcome, token, started_at, finished_at, answer)
select d.id, d.attempt, 'completed', d.token, d.started_at, d.finished_at, o.value ->> 5
from json_each(:batch) o
join duly.agenda a on a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1
    and a.position = o.value ->> 4 and a.replay_from is null
join duly.streams s on s.lane = a.lane and s.counter = a.position
join duly.deliveries d on d.number = a.delivery
where :answered and o.value ->> 5 is not null;
delete from duly.agenda where lane in (
    select a.lane from json_each(:batch) o
    join duly.agenda a on a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1
        and a.position = o.value ->> 4 and a.replay_from is null
    join duly.streams s on s.lane = a.lane and s.counter = a.position);

-- name: advance
-- Settles the heads of streams, all rows at once: lane, token, delivery, position, started_at,
-- finished_at, apart, blocks, follower, follower_position, more, answer. Several of one lane may be given,
-- in their order; `more` marks all but the last of them. If the run continues, its follower becomes
-- the head under the same token; otherwise the next in the queue does, and the lane is released.
-- The lanes are changed last, since the other statements check their tokens. "+ 0" keeps the query
-- planner from using the index on token.
select json_group_array(json_array(o.value ->> 0, o.value ->> 1)) as "packed: lane token"
from json_each(:batch) o where not exists (
    select 1 from duly.agenda a where a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1);
update duly.deliveries as d
set state = 'completed', attempt = d.attempt + 1, token = o.token,
    started_at = o.started_at, finished_at = o.finished_at, reason = null, error = null
from (
    select o.value ->> 1 as token, o.value ->> 2 as delivery, o.value ->> 4 as started_at,
           o.value ->> 5 as finished_at
    from json_each(:batch) o
    join duly.agenda a on a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1
    where o.value ->> 6 is null
) o
where d.id = o.delivery and d.state = 'pending';
insert into duly.attempts (delivery, attempt, outcome, token, started_at, finished_at, answer)
select d.id, d.attempt, 'completed', d.token, d.started_at, d.finished_at, o.value ->> 11
from json_each(:batch) o
join duly.agenda a on a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1
join duly.deliveries d on d.id = o.value ->> 2 and d.state = 'completed'
    and d.token = o.value ->> 1 and d.finished_at = o.value ->> 5
where :answered and o.value ->> 6 is null and o.value ->> 11 is not null
  -- If the answer to an earlier call was lost, it was written by that.
  and not exists (
    select 1 from duly.attempts t
    where t.delivery = d.id and t.attempt = d.attempt and t.outcome = 'completed');
-- A delivery that leaves the queue gets a separate lane, in which it is settled.
insert into duly.agenda (lane, delivery, due_at, token, claimed_at, target, priority, schedule)
select d.number, d.number, d.due_at, a.token, :now, d.target, d.priority,
       iif(d.occasion ->> 'overlap' <> 'allow', d.schedule, null)
from json_each(:batch) o
join duly.agenda a on a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1
join duly.deliveries d on d.id = o.value ->> 2 and d.state = 'pending'
where o.value ->> 6;
update duly.deliveries set lane = null
where id in (
    select o.value ->> 2 from json_each(:batch) o
    join duly.agenda a on a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1
    where o.value ->> 6 and o.value ->> 7 is null);
update duly.agenda as a
set delivery = f.number, position = o.value ->> 9, unblocks_at = null
from json_each(:batch) o join duly.deliveries f on f.id = o.value ->> 8
where a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1 and o.value ->> 10 is null;
update duly.agenda as a
set token = null, claimed_at = null, halted = 'blocked', halted_at = :now,
    due_at = 253402214400000000, crashes = 0, delivery = d.number, position = o.value ->> 3,
    -- The delivery that failed may be a follower of the lane's head.
    unblocks_at = iif(a.delivery = d.number, a.unblocks_at, null)
from json_each(:batch) o join duly.deliveries d on d.id = o.value ->> 2
where a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1 and o.value ->> 10 is null and o.value ->> 7;
update duly.agenda as a
set token = null, claimed_at = null, crashes = 0, replay_from = null, unblocks_at = null,
    delivery = n.number, position = n.position, target = n.target, priority = n.priority,
    due_at = iif(a.halted is null, min(n.due_at, coalesce(n.expires_at, n.due_at)), 253402214400000000)
from (
    select a.lane, (
        select d.number from duly.deliveries d
        where d.lane = a.lane and d.state = 'pending'
          and d.position >= min(coalesce(a.replay_from, (o.value ->> 3) + 1), (o.value ->> 3) + 1)
        order by d.position limit 1) as next
    from json_each(:batch) o
    join duly.agenda a on a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1
    where o.value ->> 10 is null and o.value ->> 8 is null
) o join duly.deliveries n on n.number = o.next
where a.lane = o.lane;
delete from duly.agenda where lane in (
    select a.lane from json_each(:batch) o
    join duly.agenda a on a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1
    where o.value ->> 10 is null and o.value ->> 8 is null);

-- name: hold
select lane from duly.agenda where lane in (select value from json_each(:lanes));

-- name: stay
-- Lanes whose head stays after it was released: a stream that was paused meanwhile is never due,
-- and if an earlier delivery was put back meanwhile, that becomes the head.
update duly.agenda set due_at = 253402214400000000
where lane in (select value from json_each(:lanes)) and token is null and halted is not null;
update duly.agenda as a
set delivery = n.number, position = n.position, target = n.target, priority = n.priority,
    replay_from = null, unblocks_at = null,
    due_at = iif(a.halted is null, min(n.due_at, coalesce(n.expires_at, n.due_at)), 253402214400000000)
from duly.deliveries n
where a.lane in (select value from json_each(:lanes)) and a.token is null and a.crashes = 0
  and a.replay_from < a.position and n.number = (
    select d.number from duly.deliveries d
    where d.lane = a.lane and d.position >= a.replay_from and d.position < a.position
      and d.state = 'pending'
    order by d.position limit 1);

-- name: own_lanes
select id, number as lane from duly.deliveries where id in (select value from json_each(:ids));

-- name: enlist
-- Moves a delivery from its separate lane to the end of its stream's queue. It was planned before
-- it was due, so it has not joined the queue yet.
insert into duly.streams (lane, namespace, name, counter, used_at)
select coalesce((select min(lane) from duly.streams), 0) - 1, :namespace, :stream, 1, :now
where exists (select 1 from duly.agenda where lane = :lane and token = :token)
on conflict (namespace, name) do update set counter = counter + 1, used_at = excluded.used_at;
update duly.deliveries as d set lane = s.lane, position = s.counter
from duly.streams s
where s.namespace = :namespace and s.name = :stream
  and d.number = (select delivery from duly.agenda where lane = :lane and token = :token)
returning id;
insert into duly.agenda (lane, delivery, target, priority, due_at, position, halted, halted_at)
select s.lane, d.number, d.target, d.priority, iif(s.paused_at is null, d.due_at, 253402214400000000),
       d.position, iif(s.paused_at is null, null, 'paused'), s.paused_at
from duly.agenda a join duly.deliveries d on d.number = a.delivery
join duly.streams s on s.lane = d.lane
where a.lane = :lane and a.token = :token
on conflict (lane) do nothing;
delete from duly.agenda where lane = :lane and token = :token;

-- name: unjoined
-- A delivery in a separate lane, and the earlier occurrences of its schedule in theirs, earliest
-- first.
select d.id, a.lane,
       d.position is null and d.occasion ->> 'overlap' = 'queue'
           and coalesce(a.token = :token, 1) as free
from (
    select d.schedule, d.due_at, d.occurrence
    from duly.agenda a join duly.deliveries d on d.number = a.delivery
    where a.lane = :lane and a.token = :token and a.position is null
) m
join duly.agenda a on a.schedule = m.schedule and a.position is null
join duly.deliveries d on d.number = a.delivery
where (d.due_at, d.occurrence) <= (m.due_at, m.occurrence)
order by d.due_at, d.occurrence limit :most;

-- name: join
-- Moves deliveries from separate lanes to the end of a stream's queue, in the given order.
update duly.streams set counter = counter + json_array_length(:ids), used_at = :now
where lane = :line;
delete from duly.agenda where lane in (
    select number from duly.deliveries where id in (select value from json_each(:ids)));
update duly.deliveries as d
set stream = s.name, lane = s.lane,
    position = s.counter - json_array_length(:ids) + 1 + g.key
from duly.streams s cross join json_each(:ids) g
where s.lane = :line and d.id = g.value
returning id;
insert into duly.agenda (lane, delivery, target, priority, due_at, position, halted, halted_at)
select s.lane, d.number, d.target, d.priority, iif(s.paused_at is null, d.due_at, 253402214400000000),
       d.position, iif(s.paused_at is null, null, 'paused'), s.paused_at
from duly.streams s join duly.deliveries d on d.id = :ids ->> 0
where s.lane = :line
on conflict (lane) do nothing;

-- name: cancel_line
-- Cancels the pending deliveries of a stream at or after a position.
insert into duly.attempts (delivery, attempt, outcome, finished_at)
select id, attempt, 'cancelled', :now from duly.deliveries
where lane = :lane and position >= :since and state = 'pending';
update duly.deliveries
set state = 'cancelled', finished_at = :now, reason = 'cancelled', lane = null
where lane = :lane and position >= :since and state = 'pending'
returning id;
