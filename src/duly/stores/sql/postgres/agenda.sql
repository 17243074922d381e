-- name: openings
-- One index probe for each priority and target, regardless of how many lanes each has.
opening as (
    (select priority, target, due_at from duly.agenda
     where token is null order by priority, target, due_at limit 1)
    union all
    select a.priority, a.target, a.due_at from opening o cross join lateral (
        select priority, target, due_at from duly.agenda
        where token is null and (priority, target) > (o.priority, o.target)
        order by priority, target, due_at limit 1
    ) a
)

-- name: survey
with recursive {openings}
select o.priority, abs(o.target) as target, o.due_at, coalesce(:now::timestamptz, now()) as seen_at,
       t.name like 'endpoint:%' and e.state is distinct from 'active' as shut,
       case when g.opened_at is not null then g.probe_at end as probe_at,
       coalesce(g.failures > 0, false) as failing,
       coalesce(e.rate, e.in_flight, l.rate, l.in_flight) is not null as limited,
       o.target < 0 as turns, coalesce(e.key_rate, l.key_rate) as key_rate,
       coalesce(e.key_in_flight, l.key_in_flight) as key_in_flight
from opening o
join duly.targets t on t.id = abs(o.target) and (:served::text[] is null or t.namespace = any(:served::text[]))
left join duly.gates g on g.target = abs(o.target)
left join duly.endpoints e on e.target = abs(o.target)
left join duly.limits l on l.target = abs(o.target);

-- name: backlog
-- The number of waiting lanes, up to a limit; no more rows are read than are counted. Targets that
-- can be called come first, then the oldest lanes, so that lanes of an unavailable target do not
-- hide late ones.
with recursive {openings}, opened as materialized (
    select o.priority, o.target, o.due_at, coalesce(:now::timestamptz, now()) as seen_at,
           g.opened_at is not null or (t.name like 'endpoint:%' and e.state is distinct from 'active')
               as stands
    from opening o
    join duly.targets t on t.id = abs(o.target) and t.namespace = :namespace
    left join duly.gates g on g.target = abs(o.target)
    left join duly.endpoints e on e.target = abs(o.target)
    order by stands, o.due_at
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
       least(:most, (select count(*) from (
            select 1 from duly.deliveries
            where namespace = :namespace and dead_at is not null and disposition is null
            limit :most) found) + (select count(*) from (
            select 1 from duly.deliveries
            where namespace = :namespace and disposition = 'left' limit :most) found)) as undecided,
       (select count(*) from (
            select 1 from duly.claims c cross join lateral unnest(c.lanes) as l(lane)
            cross join lateral (
                select a.target from duly.agenda a
                where a.lane = l.lane and a.token = c.token offset 0
            ) a
            join duly.targets t on t.id = abs(a.target) and t.namespace = :namespace
            limit :most) found) as processing,
       coalesce(:now::timestamptz, now()) as seen_at;

-- name: late_work
with recursive {openings}, opened as materialized (
    select o.priority, o.target, o.due_at,
           coalesce(:now::timestamptz, now()) - :grace * interval '1 second' as late_at
    from opening o
    join duly.targets t on t.id = abs(o.target) and (:served::text[] is null or t.namespace = any(:served::text[]))
    left join duly.gates g on g.target = abs(o.target)
    left join duly.endpoints e on e.target = abs(o.target)
    where (:targets::integer[] is null or abs(o.target) = any(:targets::integer[]))
      and o.due_at < coalesce(:now::timestamptz, now()) - :grace * interval '1 second'
      and (t.name not like 'endpoint:%' or e.state is not distinct from 'active')
      and (g.opened_at is null or g.probe_at is null)
)
select (select count(*) from (
            select 1 from opened o cross join lateral (
                select 1 from duly.agenda
                where token is null and priority = o.priority and target = o.target
                  and due_at < o.late_at order by due_at limit :most
            ) a limit :most) found) as count,
       (select min(due_at) from opened) as oldest_at;

-- name: claim
-- The left join and offset 0 matter: a lane whose delivery is not visible must still be returned,
-- or its lease would leak, and the ledger must be read by key, never scanned. The rows are locked,
-- so that their ctid stays valid until the end of the statement.
with ask as materialized (
    -- Keeps the order of the requests, which the join would lose.
    select * from unnest(
        :priority::smallint[], :target::integer[], :floor_at::timestamptz[], :quota::integer[]
    ) with ordinality as t(priority, target, floor_at, quota, turn)
    where not exists (
        select from duly.endpoints e where e.target = t.target and e.state <> 'active')
    order by turn
), picked as materialized (
    select l.place from ask cross join lateral (
        select a.ctid as place from duly.agenda a
        where a.token is null and a.priority = ask.priority and a.target = ask.target
          and a.due_at >= ask.floor_at and a.due_at <= coalesce(:now::timestamptz, now())
        order by a.due_at limit ask.quota
        for update skip locked
    ) l
    where exists (select from duly.workers w where w.id = :worker and w.ended_at is null)
    limit :slots
), held as (
    update duly.agenda a set token = :token, claimed_at = coalesce(:now::timestamptz, now())
    where a.ctid = any(array(select place from picked)) and a.token is null
    returning a.lane, a.delivery, a.target, a.due_at, a.crashes, a.token, a.position
), noted as (
    insert into duly.claims (token, lanes)
    select :token, array_agg(lane) from held having count(*) > 0
    on conflict (token) do update set lanes = claims.lanes || excluded.lanes
), forgotten as (
    delete from duly.claims where token = any(:finished::text::bigint[])
)
select d.id::text as id, nullif(h.lane, d.id)::text as lane, h.token, h.target, d.payload,
       d.attempt, d.priority, h.crashes, d.due_at, nullif(h.due_at, d.due_at) as ready_at,
       d.expires_at, d.retry, d.key, d.occasion, d.address, d.stream, h.position, d.on_failure,
       d.stream is not null and d.position is null as joins,
       extract(epoch from d.expires_at - coalesce(:now::timestamptz, now()))::float8 as expires_in,
       d.unique_key
from held h left join lateral (
    select * from duly.deliveries d where d.id = h.delivery offset 0
) d on true
where h.position is null
union all
-- Of a stream, a run of deliveries; one that was held when a worker died runs alone.
select d.id::text, h.lane::text, h.token, coalesce(d.target, h.target), d.payload,
       d.attempt, d.priority, h.crashes, d.due_at,
       case when d.due_at <= coalesce(:now::timestamptz, now()) or d.id = h.delivery then h.due_at end,
       d.expires_at, d.retry, d.key, d.occasion, d.address, d.stream,
       -- For an empty queue, the stream's last position: if nothing was added since, the lane is
       -- removed.
       coalesce(d.position, (select s.counter from duly.streams s where s.lane = h.lane), h.position),
       d.on_failure, false,
       extract(epoch from d.expires_at - coalesce(:now::timestamptz, now()))::float8, null
from held h left join lateral (
    select * from duly.deliveries d
    where d.lane = h.lane and d.position >= h.position and d.state = 'pending'
    order by d.position limit case when h.crashes > 0 then 1 else :run end
) d on true
where h.position is not null;

-- name: complete
-- The most frequent settlement, kept minimal. It returns the lanes to which it did not apply, so
-- usually nothing. The token is checked again at the delete: another worker may have claimed the
-- lane meanwhile. The history stores the answers.
with outcome as materialized (
    select o.*, a.place, a.delivery from unnest(
        :lane::text::uuid[], :token::text::bigint[],
        :started_us::text::bigint[], :finished_us::text::bigint[], :answer::text[]
    ) as o(lane, token, started_at, finished_at, answer)
    left join lateral (
        select a.ctid as place, a.delivery from duly.agenda a
        where a.lane = o.lane and a.token = o.token offset 0
    ) a on true
), ended as (
    delete from duly.agenda a
    where a.ctid = any(array(select place from outcome))
      and a.token = any(array(select distinct token from outcome))
    returning a.lane, a.token, a.delivery
), finished as (
    update duly.deliveries d
    set state = 'completed', attempt = d.attempt + 1, token = o.token,
        started_at = to_timestamp(o.started_at / 1e6::float8),
        finished_at = to_timestamp(o.finished_at / 1e6::float8),
        reason = null, error = null
    from outcome o
    where d.id = any(array(select delivery from ended)) and d.id = o.delivery
    returning d.id, d.attempt, d.token, d.started_at, d.finished_at, o.answer
), logged as (
    insert into duly.attempts
        (delivery, attempt, outcome, token, started_at, finished_at, answer)
    select id, attempt, 'completed', token, started_at, finished_at, answer from finished
    where :answered::boolean and answer is not null
)
select o.lane::text as lane, o.token from outcome o
where not exists (select from ended e where e.lane = o.lane and e.token = o.token);

-- name: settle
with outcome as materialized (
    select * from unnest(
        :lane::uuid[], :token::bigint[], :delivery::uuid[], :verdict::text[], :attempt::smallint[],
        :started_at::timestamptz[], :finished_at::timestamptz[], :wait::double precision[],
        :priority::smallint[], :crashes::smallint[], :reason::text[], :error::text[],
        :answer::text[], :traceback::text[], :exception::text[],
        :fingerprint::text[]
    ) as t(lane, token, delivery, verdict, attempt, started_at, finished_at, wait,
           priority, crashes, reason, error, answer, traceback, exception, fingerprint)
), ended as (
    delete from duly.agenda a
    where a.lane = any(array(
            select lane from outcome where verdict in ('completed', 'dead', 'expired', 'skipped', 'cancelled')))
      and (a.lane, a.token) in (
            select lane, token from outcome where verdict in ('completed', 'dead', 'expired', 'skipped', 'cancelled'))
    returning a.lane, a.token
), kept as (
    update duly.agenda a
    set token = null, claimed_at = null,
        -- A worker that releases it without an attempt may not know its current count of crashes.
        priority = case when o.verdict in ('released', 'deferred') then a.priority else o.priority end,
        crashes = case when o.verdict in ('released', 'deferred') then a.crashes else o.crashes end,
        -- Due when it expires at the latest, or it would block its stream for longer than needed.
        due_at = case when o.wait is null then a.due_at
                 else least(coalesce(:now::timestamptz, now()) + o.wait * interval '1 second', (
                     select d.expires_at from duly.deliveries d where d.id = o.delivery)) end
    from outcome o
    where a.lane = any(array(
            select lane from outcome where verdict in ('retry', 'released', 'reclaimed', 'deferred')))
      and a.lane = o.lane and a.token = o.token
      and o.verdict in ('retry', 'released', 'reclaimed', 'deferred')
    returning a.lane, o.token
), applied as materialized (
    select o.* from outcome o
    where (o.lane, o.token) in (select lane, token from ended union all select * from kept)
), finished as (
    update duly.deliveries d
    set attempt = o.attempt, started_at = o.started_at, token = o.token,
        reason = o.reason, error = o.error,
        state = case o.verdict when 'completed' then 'completed' when 'dead' then 'dead'
                when 'expired' then 'cancelled'
                when 'skipped' then 'cancelled' when 'cancelled' then 'cancelled'
                else 'pending' end,
        finished_at = case when o.verdict = 'retry' then null else o.finished_at end,
        dead_at = case when o.verdict = 'dead' then o.finished_at end, fingerprint = o.fingerprint,
        crashes = case when o.verdict = 'dead' then nullif(o.crashes, 0) end
    from applied o
    where d.id = any(array(
            select delivery from applied where verdict not in ('released', 'reclaimed', 'deferred')))
      and d.id = o.delivery
), counted as (
    update duly.progress p set skipped = p.skipped + n.skipped
    from (
        select d.schedule, count(*) as skipped
        from applied o join duly.deliveries d on d.id = o.delivery
        where o.verdict = 'skipped' group by d.schedule
    ) n where p.schedule = n.schedule
), logged as (
    insert into duly.attempts
        (delivery, attempt, outcome, token, started_at, finished_at, next_at, reason, error,
         answer, traceback, exception)
    select delivery, attempt, verdict, token, started_at, finished_at,
           coalesce(:now::timestamptz, now()) + wait * interval '1 second', reason, error, answer,
           traceback, exception
    from applied where verdict <> 'deferred' and (answer is not null or verdict <> 'completed')
)
select lane::text as lane from applied;

-- name: release
update duly.agenda a set token = null, claimed_at = null
where a.lane = any(array(select unnest(lanes) from duly.claims where token = :token))
  and a.token = :token
returning a.lane::text as lane;

-- name: held_by_dead
-- A worker declared dead may still have a transaction open on a lane; this must not wait for it.
select d.id::text as id, a.lane::text as lane, a.token, abs(a.target) as target, d.payload, d.attempt, d.priority,
       a.crashes, d.due_at, a.due_at as ready_at, d.expires_at, d.retry, d.key, d.occasion,
       d.address, d.stream, a.position, d.on_failure, false as joins, null::float8 as expires_in,
       d.unique_key
from duly.workers w
join duly.claims c on c.token >= w.id * 4294967296 and c.token < (w.id + 1) * 4294967296
cross join lateral unnest(c.lanes) as l(lane)
cross join lateral (
    select * from duly.agenda a
    where a.lane = l.lane and a.token = c.token
    for update skip locked
) a
join duly.deliveries d on d.id = a.delivery
where w.ended_at is not null and w.reclaimed_at is null
limit :limit;
