-- name: backlog
-- One probe of the index for each level and target, and behind each no more rows than are counted.
with recursive opening as (
    (select priority, target, due_at from duly.agenda
     where token is null order by priority, target, due_at limit 1)
    union all
    select a.priority, a.target, a.due_at from opening o cross join lateral (
        select priority, target, due_at from duly.agenda
        where token is null and (priority, target) > (o.priority, o.target)
        order by priority, target, due_at limit 1
    ) a
), opened as materialized (
    select o.priority, o.target, o.due_at, coalesce(:now::timestamptz, now()) as seen_at,
           g.opened_at is not null or (t.name like 'endpoint:%' and e.state is distinct from 'active')
               as stands
    from opening o
    join duly.targets t on t.id = o.target and t.namespace = :namespace
    left join duly.gates g on g.target = o.target
    left join duly.endpoints e on e.target = o.target
), due as materialized (
    select not o.stands and a.due_at < o.seen_at - :grace * interval '1 second' as is_late
    from opened o cross join lateral (
        select due_at from duly.agenda
        where token is null and priority = o.priority and target = o.target
          and due_at <= o.seen_at order by due_at limit :most
    ) a limit :most
), upcoming as materialized (
    select 1 from opened o cross join lateral (
        select 1 from duly.agenda
        where token is null and priority = o.priority and target = o.target
          and due_at > o.seen_at and halted is null order by due_at limit :most
    ) a limit :most
)
select (select count(*) from due) as due,
       (select min(due_at) from opened where due_at <= seen_at) as oldest_due_at,
       (select count(*) from due where is_late) as late,
       (select min(due_at) from opened
        where not stands and due_at < seen_at - :grace * interval '1 second') as oldest_late_at,
       (select count(*) from upcoming) as upcoming,
       (select count(*) from (
            select 1 from duly.deliveries
            where namespace = :namespace and dead_at is not null limit :most) found) as dead,
       (select count(*) from (
            select 1 from duly.claims c cross join lateral unnest(c.lanes) as l(lane)
            cross join lateral (
                select a.target from duly.agenda a
                where a.lane = l.lane and a.token = c.token offset 0
            ) a
            join duly.targets t on t.id = a.target and t.namespace = :namespace
            limit :most) found) as processing,
       coalesce(:now::timestamptz, now()) as seen_at;

-- name: workers
select count(*) filter (where ended_at is null
           and beat_at + lease * interval '1 second' >= coalesce(:now::timestamptz, now()))
           as workers,
       max(beat_at) as last_beat_at
from duly.workers where namespace = :namespace;

-- name: circuits
select t.name, g.probing from duly.gates g
join duly.targets t on t.id = g.target and t.namespace = :namespace
where g.opened_at is not null order by g.opened_at limit :most;

-- name: endpoints
select name, state from duly.endpoints
where namespace = :namespace and state <> 'active' order by name limit :most;
