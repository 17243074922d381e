-- name: recent
-- The newest deliveries by state and attempt. Read in order of id, which is the order of creation,
-- so that only these rows are read.
with newest as materialized (
    select id, lane, namespace, state, attempt, accepted_at from duly.deliveries
    order by id desc limit :most
), found as (
    select n.attempt, case when n.state = 'pending' and exists (
        select from duly.agenda a
        where a.lane = coalesce(n.lane, n.id) and a.delivery = n.id and a.token is not null
    ) then 'processing' else n.state end as state
    from newest n where n.namespace = :namespace and n.accepted_at >= :since_at
)
select state, attempt, count(*) as count, false as is_capped from found group by state, attempt
union all
-- If a row older than requested was read, nothing was left out.
select null, null, 0, count(*) = :most and min(accepted_at) >= :since_at from newest;

-- name: reasons
with latest as materialized (
    select delivery, reason from duly.attempts
    where outcome in ('retry', 'dead', 'reclaimed') and finished_at >= :since_at
    order by finished_at desc limit :most
)
select l.reason, count(*) as count, false as is_capped
from latest l cross join lateral (
    select from duly.deliveries d
    where d.id = l.delivery and d.namespace = :namespace offset 0
) d
where l.reason is not null group by l.reason
union all
select null, 0, count(*) = :most from latest;

-- name: retries
-- Deliveries that wait for another attempt, upcoming or overdue. Of those whose time has passed,
-- most have been attempted already.
with coming as materialized (
    select delivery, attempt from duly.attempts
    where next_at > :until_at order by next_at limit :most
), passed as materialized (
    select delivery, attempt from duly.attempts
    where next_at >= :since_at and next_at <= :until_at order by next_at desc limit :most
)
select count(*) as count, min(b.next_at) as next_at, max(b.next_at) as last_at,
       (select count(*) from coming) = :most or (select count(*) from passed) = :most as is_capped
from (select * from coming union select * from passed) p cross join lateral (
    select b.next_at from duly.booked b
    where b.id = p.delivery and b.namespace = :namespace and b.state = 'pending'
      and b.attempt = p.attempt offset 0
) b;

-- name: poison_candidates
-- Unfinished deliveries whose workers died while they held them, as listed by `duly dead poison`.
with lost as materialized (
    -- In the order of the index: without it, a table that was never analyzed is read as a whole.
    select delivery, crashes from duly.agenda where crashes > 0 order by crashes desc limit :most
), crashed as materialized (
    select d.id::text as id, t.name as target, l.crashes, d.attempt from lost l
    cross join lateral (
        select id, target, attempt from duly.deliveries where id = l.delivery offset 0
    ) d
    join duly.targets t on t.id = d.target and t.namespace = :namespace
)
select id, target, crashes, attempt, (select count(*) from crashed) as count
from crashed order by crashes desc, id limit :limit;

-- name: halted
with standing as materialized (
    -- In the order of the index: without it, a table that was never analyzed is read as a whole.
    select halted, target from duly.agenda where halted is not null order by halted_at limit :most
)
select s.halted, count(*) as count, false as is_capped from standing s
join duly.targets t on t.id = s.target and t.namespace = :namespace
group by s.halted
union all
select null, 0, count(*) = :most from standing;
