-- name: openings
-- One index probe for each priority and target, regardless of how many lanes each has.
opening(priority, target, due_at) as (
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
)

-- name: survey
with recursive {openings}
select o.priority, abs(o.target) as target, o.due_at, :now as seen_at,
       t.name like 'endpoint:%' and e.state is not 'active' as shut,
       case when g.opened_at is not null then g.probe_at end as probe_at,
       coalesce(g.failures > 0, 0) as failing,
       coalesce(e.rate, e.in_flight, l.rate, l.in_flight) is not null as limited,
       o.target < 0 as turns, coalesce(e.key_rate, l.key_rate) as key_rate,
       coalesce(e.key_in_flight, l.key_in_flight) as key_in_flight
from opening o
join duly.targets t on t.id = abs(o.target) and (:served is null or t.namespace in (select value from json_each(:served)))
left join duly.gates g on g.target = abs(o.target)
left join duly.endpoints e on e.target = abs(o.target)
left join duly.limits l on l.target = abs(o.target);

-- name: backlog
-- The number of waiting lanes, up to a limit; no more rows are read than are counted. Targets that
-- can be called come first, then the oldest lanes, so that lanes of an unavailable target do not
-- hide late ones.
with recursive {openings}, opened as materialized (
    select o.priority, o.target, o.due_at, :now as seen_at,
           g.opened_at is not null or (t.name like 'endpoint:%' and e.state is not 'active')
               as stands
    from opening o
    join duly.targets t on t.id = abs(o.target) and t.namespace = :namespace
    left join duly.gates g on g.target = abs(o.target)
    left join duly.endpoints e on e.target = abs(o.target)
    order by stands, o.due_at
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
       min(:most, (select count(*) from (
            select 1 from duly.deliveries
            where namespace = :namespace and dead_at is not null and disposition is null
            limit :most) found) + (select count(*) from (
            select 1 from duly.deliveries
            where namespace = :namespace and disposition = 'left' limit :most) found)) as undecided,
       (select count(*) from (
            select 1 from duly.agenda a
            join duly.targets t on t.id = abs(a.target) and t.namespace = :namespace
            where a.token is not null
            limit :most) found) as processing,
       :now as seen_at;

-- name: late_work
with recursive {openings}, opened as materialized (
    select o.priority, o.target, o.due_at, :now - cast(:grace * 1000000 as integer) as late_at
    from opening o
    join duly.targets t on t.id = abs(o.target) and (:served is null or t.namespace in (select value from json_each(:served)))
    left join duly.gates g on g.target = abs(o.target)
    left join duly.endpoints e on e.target = abs(o.target)
    where (:targets is null or abs(o.target) in (select value from json_each(:targets)))
      and o.due_at < :now - cast(:grace * 1000000 as integer)
      and (t.name not like 'endpoint:%' or e.state is 'active')
      and (g.opened_at is null or g.probe_at is null)
)
select (select count(*) from (
            select 1 from opened o cross join duly.agenda a
            where a.token is null and a.priority = o.priority and a.target = o.target
              and a.due_at < o.late_at limit :most) found) as count,
       (select min(due_at) from opened) as oldest_at;

-- name: claim
-- All requests at once (priority, target, floor_at, quota), since Python's global lock is released
-- for each statement. The limit cannot differ by request: the largest is used for all, and then the
-- rows of each are counted.
update duly.agenda set token = :token, claimed_at = :now
where lane in (
    select lane from (
        select a.lane, o.key as turn, o.value ->> 3 as quota,
               row_number() over (partition by o.key order by a.due_at) as place
        from json_each(:batch) o cross join duly.agenda a
        where a.lane in (
            select l.lane from duly.agenda l
            where l.token is null and l.priority = o.value ->> 0 and l.target = o.value ->> 1
              and l.due_at >= o.value ->> 2 and l.due_at <= :now
            order by l.due_at limit (select max(q.value ->> 3) from json_each(:batch) q))
          and not exists (
            select 1 from duly.endpoints e where e.target = o.value ->> 1 and e.state <> 'active')
    ) where place <= quota order by turn, place limit :slots
) and exists (select 1 from duly.workers w where w.id = :worker and w.ended_at is null);
-- All rows are returned packed into one (see session.py).
select json_group_array(json_array(
    d.id, held.lane, held.token, held.target, cast(d.payload as text), d.attempt, d.priority,
    held.crashes, d.due_at, nullif(held.due_at, d.due_at), d.expires_at, d.retry, d.key,
    d.occasion, d.address, d.stream, held.position, d.on_failure,
    d.stream is not null and d.position is null, (d.expires_at - :now) / 1000000.0, d.unique_key
)) as "packed: id lane token target payload attempt priority crashes due_at ready_at expires_at
               retry key occasion address stream position on_failure joins expires_in unique_key"
from (
    select * from duly.agenda where token = :token and position is null and turn is null
    order by priority desc, due_at
) held left join duly.deliveries d on d.number = held.delivery;
select json_group_array(json_array(
    d.id, held.lane, held.token, coalesce(d.target, held.target), cast(d.payload as text),
    d.attempt, d.priority, held.crashes, d.due_at, iif(d.due_at <= :now or d.number = held.delivery, held.due_at, null),
    d.expires_at, d.retry, d.key,
    d.occasion, d.address, d.stream, coalesce(d.position, held.position), d.on_failure, 0,
    (d.expires_at - :now) / 1000000.0, null
)) as "packed: id lane token target payload attempt priority crashes due_at ready_at expires_at
               retry key occasion address stream position on_failure joins expires_in unique_key"
from (
    select * from duly.agenda where token = :token and position is not null
) held left join duly.deliveries d on d.number in (
    -- Of a stream, a run of deliveries; one that was held when a worker died runs alone.
    select number from duly.deliveries m
    where m.lane = held.lane and m.position >= held.position and m.state = 'pending'
      and (held.crashes = 0 or m.position = held.position)
    order by m.position limit :run
);

-- name: complete
-- The most frequent settlement, kept minimal: lane, token, started_us, finished_us and answer, all
-- rows at once. It returns the lanes to which it does not apply, so usually nothing. The view's
-- trigger (migration 0012) makes the changes for each row, so that Python's global lock is released
-- only once. "+ 0" keeps the query planner from using the index on token.
select json_group_array(json_array(o.value ->> 0, o.value ->> 1)) as "packed: lane token"
from json_each(:batch) o where not exists (
    select 1 from duly.agenda a where a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1);
insert into duly.completions
select a.lane, a.delivery, a.token, o.value ->> 2, o.value ->> 3, iif(:answered, o.value ->> 4, null)
from json_each(:batch) o join duly.agenda a on a.lane = o.value ->> 0 and a.token + 0 = o.value ->> 1;

-- name: settle
-- Runs once for each settlement, in one transaction; the ledger is written while the lane still has
-- its token.
update duly.deliveries
set attempt = :attempt, started_at = :started_at, token = :token,
    reason = :reason, error = :error,
    state = case :verdict when 'completed' then 'completed' when 'dead' then 'dead'
            when 'expired' then 'cancelled' when 'skipped' then 'cancelled'
            when 'cancelled' then 'cancelled' else 'pending' end,
    finished_at = case when :verdict = 'retry' then null else :finished_at end,
    dead_at = case when :verdict = 'dead' then :finished_at end, fingerprint = :fingerprint,
    crashes = case when :verdict = 'dead' then nullif(:crashes, 0) end
where id = :delivery and :verdict not in ('released', 'reclaimed', 'deferred')
  and exists (select 1 from duly.agenda where lane = :lane and token = :token);
insert into duly.attempts
    (delivery, attempt, outcome, token, started_at, finished_at, next_at, reason, error, answer,
     traceback, exception)
select :delivery, :attempt, :verdict, :token, :started_at, :finished_at,
       :now + cast(:wait * 1000000 as integer), :reason, :error, :answer, :traceback,
       :exception
where :verdict <> 'deferred' and (:answer is not null or :verdict <> 'completed')
  and exists (select 1 from duly.agenda where lane = :lane and token = :token);
update duly.progress set skipped = skipped + 1
where :verdict = 'skipped' and schedule = (select schedule from duly.deliveries where id = :delivery)
  and exists (select 1 from duly.agenda where lane = :lane and token = :token);
update duly.agenda
set token = null, claimed_at = null,
    -- A worker that releases it without an attempt may not know its current count of crashes.
    priority = iif(:verdict in ('released', 'deferred'), priority, :priority),
    crashes = iif(:verdict in ('released', 'deferred'), crashes, :crashes),
    -- Due when it expires at the latest, or it would block its stream for longer than needed.
    due_at = coalesce(min(:now + cast(:wait * 1000000 as integer), coalesce((
        select d.expires_at from duly.deliveries d where d.id = :delivery), 253402214400000000)), due_at)
where lane = :lane and token = :token and :verdict in ('retry', 'released', 'reclaimed', 'deferred')
returning lane;
delete from duly.agenda
where lane = :lane and token = :token and :verdict in ('completed', 'dead', 'expired', 'skipped', 'cancelled')
returning lane;

-- name: release
update duly.agenda set token = null, claimed_at = null where token = :token
returning lane;

-- name: held_by_dead
select d.id, a.lane, a.token, abs(a.target) as target, d.payload, d.attempt, d.priority,
       a.crashes, d.due_at, a.due_at as ready_at, d.expires_at, d.retry, d.key, d.occasion,
       d.address, d.stream, a.position, d.on_failure, 0 as joins, null as expires_in, d.unique_key
from duly.workers w
join duly.agenda a on a.token >= w.id * 4294967296 and a.token < (w.id + 1) * 4294967296
join duly.deliveries d on d.number = a.delivery
where w.ended_at is not null and w.reclaimed_at is null
limit :limit;
