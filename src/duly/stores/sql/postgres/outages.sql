-- name: slice
-- One part of the ledger, so that each statement reads a limited number of rows.
d.namespace = :namespace and d.id < :before::uuid and d.id >= :floor::uuid

-- name: first_start
-- When its first attempt started; `seen_at` if it still waits, null if it ended without an attempt.
coalesce(
    (select min(f.started_at) from duly.attempts f where f.delivery = d.id), d.started_at,
    case when d.state = 'pending' then coalesce((
        select h.claimed_at from duly.agenda h
        where h.lane = coalesce(d.lane, d.id) and h.delivery = d.id), :seen_at::timestamptz) end)

-- name: ready
-- Since when it could have been attempted: it was due, accepted, and the first of its stream.
greatest(d.due_at, d.accepted_at, (
    select p.finished_at from duly.deliveries p
    where p.lane = d.lane and p.position < d.position order by p.position desc limit 1))

-- name: worked
-- When attempts ran, by the minute of their start. Of those of dead workers only the claim is known:
-- these have no start.
select floor(extract(epoch from started_at) / 60)::bigint as minute, min(started_at) as first_at,
       max(greatest(started_at, finished_at)) as last_at
from (
    select d.started_at, d.finished_at from duly.deliveries d
    where {slice} and d.state = 'completed' and d.started_at >= :horizon_at::timestamptz
    union all
    -- An index probe for each, whatever the query planner thinks of the tables.
    select t.started_at, t.finished_at from duly.deliveries d
    cross join lateral (
        select a.started_at, a.finished_at from duly.attempts a where a.delivery = d.id offset 0) t
    where {slice} and t.started_at >= :horizon_at::timestamptz
) tried group by 1;

-- name: running
-- When the attempts in progress of live workers were claimed.
select min(a.claimed_at) as first_at from duly.claims c
cross join unnest(c.lanes) as held (lane)
join duly.agenda a on a.lane = held.lane and a.token = c.token
join duly.targets t on t.id = abs(a.target) and t.namespace = :namespace
join duly.workers w on w.id = c.token / 4294967296
where w.ended_at is null
  and w.beat_at + w.lease * interval '1 second' >= :seen_at::timestamptz;

-- name: waited
-- Deliveries that waited for at least so long, by the minutes of their first start and their wait's.
select floor(extract(epoch from f.first_at) / 60)::bigint as minute,
       floor(extract(epoch from f.ready_at) / 60)::bigint as ready_minute,
       min(f.ready_at) as ready_at
from (
    select least(n.first_at, :seen_at::timestamptz) as first_at, n.ready_at from (
        select {first_start} as first_at, {ready} as ready_at
        from duly.deliveries d
        where {slice} and coalesce(d.started_at, :seen_at::timestamptz) >= :horizon_at::timestamptz
          and coalesce(d.started_at, :seen_at::timestamptz) - greatest(d.due_at, d.accepted_at)
              >= :at_least * interval '1 second'
        offset 0
    ) n where n.first_at is not null
) f
where f.first_at - f.ready_at >= :at_least * interval '1 second'
group by 1, 2;

-- name: delayed
-- Deliveries that were due before the end of an outage, and started between it and `last`; also those
-- that a schedule had to make up for. Moments are in microseconds.
select o.outage - 1 as outage, f.first_at - f.due_at as late, f.first_at as started,
       f.first_at >= f.seen_at as is_waiting
from (
    select (extract(epoch from least(n.first_at, :seen_at::timestamptz)) * 1000000)::bigint as first_at,
           (extract(epoch from n.due_at) * 1000000)::bigint as due_at,
           (extract(epoch from n.accepted_at) * 1000000)::bigint as accepted_at,
           (extract(epoch from :seen_at::timestamptz) * 1000000)::bigint as seen_at, n.schedule
    from (
        select {first_start} as first_at, d.due_at, d.accepted_at, d.schedule
        from duly.deliveries d
        where {slice} and d.due_at < :latest_at::timestamptz
          and coalesce(d.started_at, :seen_at::timestamptz) >= :earliest_at::timestamptz
        offset 0
    ) n where n.first_at is not null
) f
join unnest(:ended::bigint[], :last::bigint[]) with ordinality as o(ended, last, outage)
    on f.due_at < o.ended and f.first_at >= o.ended and f.first_at <= o.last
where f.accepted_at < o.ended or f.schedule is not null;
