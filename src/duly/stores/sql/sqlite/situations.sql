-- name: backlog
-- One probe of the index for each level and target, and behind each no more rows than are counted.
with recursive opening(priority, target, due_at) as (
    select * from (
        select priority, target, due_at from duly.agenda
        where token is null order by priority, target, due_at limit 1)
    union all
    select a.priority, a.target, a.due_at from opening o join duly.agenda a on a.lane = coalesce((
        select lane from duly.agenda
        where token is null and priority = o.priority and target > o.target
        order by target, due_at limit 1
    ), (
        select lane from duly.agenda
        where token is null and priority > o.priority
        order by priority, target, due_at limit 1
    ))
), opened as materialized (
    select o.priority, o.target, o.due_at, :now as seen_at,
           g.opened_at is not null or (t.name like 'endpoint:%' and e.state is not 'active')
               as stands
    from opening o
    join duly.targets t on t.id = o.target and t.namespace = :namespace
    left join duly.gates g on g.target = o.target
    left join duly.endpoints e on e.target = o.target
), due as materialized (
    select not o.stands and a.due_at < o.seen_at - cast(:grace * 1000000 as integer) as is_late
    from opened o cross join duly.agenda a
    where a.token is null and a.priority = o.priority and a.target = o.target
      and a.due_at <= o.seen_at limit :most
), upcoming as materialized (
    select 1 from opened o cross join duly.agenda a
    where a.token is null and a.priority = o.priority and a.target = o.target
      and a.due_at > o.seen_at and a.halted is null limit :most
)
select (select count(*) from due) as due,
       (select min(due_at) from opened where due_at <= seen_at) as oldest_due_at,
       (select count(*) from due where is_late) as late,
       (select min(due_at) from opened
        where not stands and due_at < seen_at - cast(:grace * 1000000 as integer)) as oldest_late_at,
       (select count(*) from upcoming) as upcoming,
       (select count(*) from (
            select 1 from duly.deliveries
            where namespace = :namespace and dead_at is not null limit :most) found) as dead,
       (select count(*) from (
            select 1 from duly.agenda a
            join duly.targets t on t.id = a.target and t.namespace = :namespace
            where a.token is not null
            limit :most) found) as processing,
       :now as seen_at;

-- name: workers
select count(*) filter (where ended_at is null
           and beat_at + cast(lease * 1000000 as integer) >= :now)
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
