-- Operators' changes of streams. A change first locks the stream's row, so that nothing is added,
-- and then its lane's row, so that nothing is claimed or settled; only then it reads.

-- name: find
select lane::text as lane from duly.streams where namespace = :namespace and name = :name;

-- name: lock
select lane::text as lane from duly.streams where namespace = :namespace and name = :name
for update;

-- name: open
-- As lock, creating the stream if it does not exist; its counter is raised to the given one.
insert into duly.streams (namespace, name, counter, used_at)
values (:namespace, :name, :counter, coalesce(:now::timestamptz, now()))
on conflict (namespace, name) do update set counter = greatest(streams.counter, excluded.counter)
returning lane::text as lane, counter;

-- name: hold
select lane::text as lane from duly.agenda where lane = :lane::uuid for update;

-- name: facts
-- Each stream with its head, and how many wait behind it, counted up to a limit. Until the lane is
-- claimed again, it may refer to a delivery that has left the queue: that is not a head.
select s.lane::text as lane, s.name, s.on_failure, s.block_for, s.paused_at,
       s.reason as pause_reason, a.unblocks_at,
       d.id::text as head, a.position, a.token, a.due_at, a.halted, a.halted_at, a.replay_from,
       d.state as head_state, d.attempt, d.reason, d.error,
       coalesce(w.waiting, 0) as waiting, w.oldest_at
from duly.streams s
left join duly.agenda a on a.lane = s.lane
left join duly.deliveries d
    on d.lane = a.lane and d.position = a.position and d.id = a.delivery
left join lateral (
    select count(*) as waiting, min(m.accepted_at) as oldest_at from (
        select m.accepted_at from duly.deliveries m
        where m.lane = a.lane and m.position >= least(a.position, a.replay_from)
          and m.state = 'pending' and m.id <> a.delivery
        order by m.position limit :most
    ) m
) w on true
where s.lane = any(:lanes::uuid[]) order by s.name;

-- name: page
select lane::text as lane from duly.streams
where namespace = :namespace and name > :after and (paused_at is not null or not :paused)
order by name limit :limit;

-- name: blocked
select s.lane::text as lane from duly.agenda a join duly.streams s on s.lane = a.lane
where a.halted = 'blocked' and s.namespace = :namespace and s.name > :after
order by s.name limit :limit;

-- name: change
update duly.streams
set on_failure = :on_failure, block_for = :block_for::double precision,
    paused_at = :paused_at::timestamptz, reason = :pause_reason
where lane = :lane::uuid;

-- name: first_failure
-- When the head failed for the first time since it was accepted or retried with all its attempts.
select max(finished_at) as failed_at from duly.attempts
where delivery = :id::uuid and attempt = 1 and outcome in ('retry', 'dead');

-- name: limit
update duly.agenda set unblocks_at = :unblocks_at::timestamptz where lane = :lane::uuid;

-- name: limited
-- Streams whose failed head blocks them for a limited time, those that end first. A paused stream
-- waits to be resumed, and one that is held for its head's attempt.
select s.namespace, s.name, a.unblocks_at, coalesce(:now::timestamptz, now()) as seen_at
from duly.agenda a cross join lateral (
    -- Read for one lane at a time, in the order of the index.
    select * from duly.streams s where s.lane = a.lane offset 0
) s
where a.unblocks_at is not null and s.block_for is not null and a.token is null and a.halted is distinct from 'paused'
  and (:served::text[] is null or s.namespace = any(:served::text[]))
order by a.unblocks_at limit :limit;

-- name: due
-- When a delivery of a queue is due: after a failure when its retry is due, and at the latest when
-- it expires. Included in other statements, never run by itself.
least(coalesce((
    select t.next_at from duly.attempts t where t.delivery = d.id
    order by t.finished_at desc, t.next_at nulls first limit 1
), d.due_at), d.expires_at)

-- name: next
-- The first pending delivery at or after a position.
select d.id::text as id, d.position, d.target, d.priority, {due} as due_at
from duly.deliveries d
where d.lane = :lane::uuid and d.position >= :since and d.state = 'pending'
order by d.position limit 1;

-- name: lay
-- Makes a delivery the head. If it was the head already, it keeps its priority and crashes.
insert into duly.agenda as a
    (lane, delivery, target, priority, due_at, position, halted, halted_at)
values (:lane::uuid, :id::uuid, :target, :priority, :due_at::timestamptz, :position, :halted,
        :halted_at::timestamptz)
on conflict (lane) do update
set delivery = excluded.delivery, target = excluded.target, due_at = excluded.due_at,
    position = excluded.position, halted = excluded.halted, halted_at = excluded.halted_at,
    replay_from = null,
    unblocks_at = case when a.delivery = excluded.delivery then a.unblocks_at end,
    priority = case when a.delivery = excluded.delivery then a.priority else excluded.priority end,
    crashes = case when a.delivery = excluded.delivery then a.crashes else 0 end
where a.token is null;

-- name: drop
delete from duly.agenda where lane = :lane::uuid and token is null;

-- name: halt
-- Pauses or resumes a lane; a worker that holds it finishes what it claimed.
update duly.agenda
set halted = :halted, halted_at = :halted_at::timestamptz, due_at = :due_at::timestamptz
where lane = :lane::uuid;

-- name: replay
update duly.agenda set replay_from = least(replay_from, :position) where lane = :lane::uuid;

-- name: members
-- The given deliveries that have a position in a stream, in order of position.
select id::text as id, stream, lane::text as lane, position, state, disposition
from duly.deliveries
where id = any(:ids::uuid[]) and namespace = :namespace and position is not null
order by stream, position, id;

-- name: before
-- How many pending deliveries are between two positions, counted up to a limit.
select count(*) as many from (
    select from duly.deliveries
    where lane = :lane::uuid and position >= :since and position < :position and state = 'pending'
    limit :limit
) m;

-- name: behind_run
-- The position of the first pending delivery behind a run that starts at a position.
select position from duly.deliveries
where lane = :lane::uuid and position >= :since and state = 'pending'
order by position limit 1 offset :run;

-- name: taken
-- The positions among these that other deliveries have.
select position from duly.deliveries
where lane = :lane::uuid and position = any(:positions::bigint[]) and id <> all(:ids::uuid[]);

-- name: place
update duly.deliveries set position = :position where id = :id::uuid and state = 'dead';

-- name: cancel
with cancelled as (
    update duly.deliveries
    set state = 'cancelled', finished_at = coalesce(:now::timestamptz, now()), lane = null
    where id = :id::uuid and state = 'pending'
    returning id, attempt
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at)
    select id, attempt, 'cancelled', coalesce(:now::timestamptz, now()) from cancelled
)
select id::text as id from cancelled;

-- name: hurry
insert into duly.attempts (delivery, attempt, outcome, finished_at)
values (:id::uuid, 0, 'retried', coalesce(:now::timestamptz, now()))
returning delivery::text as id;

-- name: raise
with raised as (
    update duly.deliveries
    set state = 'pending', attempt = case when :reset then 0 else attempt end, dead_at = null,
        finished_at = null, fingerprint = null, lane = :lane::uuid
    where id = any(:ids::uuid[]) and state = 'dead'
    returning id, attempt
), unlimited as (
    -- After a retry by an operator, the next failure begins another block.
    update duly.agenda set unblocks_at = null
    where lane = :lane::uuid and delivery = any(:ids::uuid[]) and unblocks_at is not null
      and :why::text is null
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
    select id, attempt, 'retried', coalesce(:now::timestamptz, now()), :why, :note from raised
)
select id::text as id from raised;

-- name: apart
with gone as (
    update duly.deliveries set lane = null where id = :id::uuid and state = 'pending'
    returning id, target, priority, schedule, occasion
), laid as (
    insert into duly.agenda (lane, delivery, target, priority, due_at, schedule)
    select id, id, target, priority, :due_at::timestamptz,
           case when occasion::json ->> 'overlap' <> 'allow' then schedule end
    from gone
)
select id::text as id from gone;

-- name: followers
-- The deliveries that wait behind the head, in order, up to a limit.
select d.id::text as id from duly.agenda a cross join lateral (
    select d.id, d.position from duly.deliveries d
    where d.lane = a.lane and d.position >= least(a.position, a.replay_from)
      and d.state = 'pending' and d.id <> a.delivery
    order by d.position limit :limit
) d
where a.lane = :lane::uuid order by d.position;

-- name: set_apart
-- Moves deliveries behind the head out of the queue, into a separate lane each.
with gone as (
    update duly.deliveries d set lane = null
    where d.id = any(:ids::uuid[]) and d.lane = :lane::uuid and d.state = 'pending'
    returning d.*
), laid as (
    insert into duly.agenda (lane, delivery, target, priority, due_at, schedule)
    select d.id, d.id, d.target, d.priority, {due},
           case when d.occasion::json ->> 'overlap' <> 'allow' then d.schedule end
    from gone d
)
select id::text as id from gone;

-- name: leave
update duly.deliveries set lane = null where id = :id::uuid
returning id::text as id;

-- name: make_dead
with dead as (
    update duly.deliveries
    set state = 'dead', dead_at = coalesce(:now::timestamptz, now()),
        finished_at = coalesce(:now::timestamptz, now()), lane = null, reason = 'operator',
        error = coalesce(:note, error), fingerprint = :fingerprint
    where id = :id::uuid and state = 'pending'
    returning id, attempt
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
    select id, attempt, 'dead_lettered', coalesce(:now::timestamptz, now()), 'operator', :note
    from dead
)
select id::text as id from dead;

-- name: discard
with discarded as (
    update duly.deliveries
    set state = 'cancelled', dead_at = null, fingerprint = null, lane = null,
        finished_at = coalesce(:now::timestamptz, now())
    where id = :id::uuid and state = 'dead'
    returning id, attempt
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
    select id, attempt, 'discarded', coalesce(:now::timestamptz, now()), 'operator', :note
    from discarded
)
select id::text as id from discarded;
