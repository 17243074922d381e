-- name: workers
select count(*) filter (where ended_at is null
           and beat_at + lease * interval '1 second' >= coalesce(:now::timestamptz, now()))
           as workers,
       max(beat_at) as last_beat_at
from duly.workers
where coalesce(namespaces, jsonb_build_array(namespace)) ?| array['*', :namespace];

-- name: circuits
select t.name, g.probing from duly.gates g
join duly.targets t on t.id = g.target and t.namespace = :namespace
where g.opened_at is not null order by g.opened_at limit :most;

-- name: endpoints
select name, state from duly.endpoints
where namespace = :namespace and state <> 'active' order by name limit :most;

-- name: behind
-- Deliveries that wait in streams, without the heads of streams that are not halted: those are in
-- the backlog. Stream by stream, or a table that was never analyzed would be read as a whole.
select count(*) as behind from (
    select from duly.streams s
    left join duly.agenda a on a.lane = s.lane
    cross join lateral (
        select d.id from duly.deliveries d where d.lane = s.lane and d.state = 'pending' offset 0
    ) d
    where s.namespace = :namespace and (a.halted is not null or a.delivery is distinct from d.id)
    limit :most) found;
