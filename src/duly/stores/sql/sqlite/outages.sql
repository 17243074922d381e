-- name: slice
-- One part of the ledger, so that each statement reads a limited number of rows.
d.namespace = :namespace and d.id < :before and d.id >= :floor

-- name: first_start
-- When its first attempt started; `seen_at` if it still waits, null if it ended without an attempt.
coalesce(
    (select min(f.started_at) from duly.attempts f where f.delivery = d.id), d.started_at,
    iif(d.state = 'pending', coalesce((
        select h.claimed_at from duly.agenda h
        where h.lane = coalesce(d.lane, d.number) and h.delivery = d.number), :seen_at), null))

-- name: ready
-- Since when it could have been attempted: it was due, accepted, and the first of its stream.
max(d.due_at, d.accepted_at, coalesce((
    select p.finished_at from duly.deliveries p
    where p.lane = d.lane and p.position < d.position order by p.position desc limit 1), 0))

-- name: worked
-- When attempts ran, by the minute of their start. Of those of dead workers only the claim is known:
-- these have no start.
select started_at / 60000000 as minute, min(started_at) as first_at,
       max(max(started_at, finished_at)) as last_at
from (
    select d.started_at, d.finished_at from duly.deliveries d
    where {slice} and d.state = 'completed' and d.started_at >= :horizon_at
    union all
    select t.started_at, t.finished_at from duly.deliveries d
    join duly.attempts t on t.delivery = d.id
    where {slice} and t.started_at >= :horizon_at
) group by 1;

-- name: running
-- When the attempts in progress of live workers were claimed.
select min(a.claimed_at) as first_at from duly.agenda a
join duly.targets t on t.id = abs(a.target) and t.namespace = :namespace
join duly.workers w on w.id = a.token / 4294967296
where a.token is not null and w.ended_at is null
  and w.beat_at + cast(w.lease * 1000000 as integer) >= :seen_at;

-- name: waited
-- Deliveries that waited for at least so long, by the minutes of their first start and their wait's.
select f.first_at / 60000000 as minute, f.ready_at / 60000000 as ready_minute,
       min(f.ready_at) as ready_at
from (
    select min({first_start}, :seen_at) as first_at, {ready} as ready_at
    from duly.deliveries d
    where {slice} and coalesce(d.started_at, :seen_at) >= :horizon_at
      and coalesce(d.started_at, :seen_at) - max(d.due_at, d.accepted_at) >= :at_least * 1000000
) f
where f.first_at - f.ready_at >= :at_least * 1000000
group by 1, 2;

-- name: delayed
-- Deliveries that were due before the end of an outage, and started between it and `last`; also those
-- that a schedule had to make up for. Moments are in microseconds.
select o.key as outage, f.first_at - f.due_at as late, f.first_at as started,
       f.first_at >= :seen_at as is_waiting
from (
    select min({first_start}, :seen_at) as first_at, d.due_at, d.accepted_at, d.schedule
    from duly.deliveries d
    where {slice} and d.due_at < :latest_at and coalesce(d.started_at, :seen_at) >= :earliest_at
) f
join json_each(:ended) o on f.due_at < o.value and f.first_at >= o.value
where f.first_at <= json_extract(:last, '$[' || o.key || ']')
  and (f.accepted_at < o.value or f.schedule is not null);
