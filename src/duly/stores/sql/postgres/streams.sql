-- name: accept
-- As ledger.accept, for requests of which some belong to a stream or a batch, or have a turn. Each
-- stream's row is locked until the commit, so that positions are in the order of commits. A paused stream gets a
-- lane too, so that it is visible, but it is never due.
with given as materialized (
    select t.*, count(*) over line as many, row_number() over (line order by t.place) as number
    from unnest(
        :id::text::uuid[], :target::text::integer[], :priority::text::smallint[], :key::text[],
        :address::text[], :due_at::timestamptz[], :after::double precision[], :expires_at::timestamptz[],
        :tags::text[], :retry::text[], :payload::bytea[], :stream::text[], :on_failure::text[],
        :in_batch::uuid[], :turn::text[]
    ) with ordinality as t(id, target, priority, key, address, due_at, after, expires_at, tags,
                           retry, payload, stream, on_failure, in_batch, turn, place)
    window line as (partition by t.stream)
), stream as (
    insert into duly.streams (namespace, name, counter, used_at)
    select :namespace, stream, count(*), coalesce(:now::timestamptz, now())
    from given where stream is not null group by stream order by stream
    on conflict (namespace, name) do update
    set counter = streams.counter + excluded.counter, used_at = excluded.used_at
    returning lane, name, counter, paused_at
), stored as (
    insert into duly.deliveries
        (id, target, priority, namespace, key, address, due_at, accepted_at, expires_at, tags,
         retry, payload, stream, on_failure, lane, position, batch, turn)
    select g.id, g.target, g.priority, :namespace, g.key, g.address,
           coalesce(g.due_at, coalesce(:now::timestamptz, now())
                              + coalesce(g.after, 0) * interval '1 second'),
           coalesce(:now::timestamptz, now()), g.expires_at, g.tags::jsonb, g.retry, g.payload,
           g.stream, g.on_failure, s.lane, s.counter - g.many + g.number, g.in_batch, g.turn
    from given g left join stream s on s.name = g.stream
    order by g.place
    on conflict do nothing
    returning id, target, priority, least(due_at, expires_at) as due_at, lane, position,
              turn
), head as (
    select distinct on (coalesce(lane, id)) * from stored order by coalesce(lane, id), position
), laid as (
    insert into duly.agenda
        (lane, delivery, target, priority, due_at, position, halted, halted_at, turn)
    select coalesce(h.lane, h.id), h.id, case when h.turn is null then h.target else -h.target end,
           h.priority,
           case when s.paused_at is null then h.due_at else '9999-12-31Z'::timestamptz end,
           h.position, case when s.paused_at is not null then 'paused' end, s.paused_at, h.turn
    from head h left join stream s on s.lane = h.lane
    on conflict (lane) do nothing
)
select count(*) as stored, coalesce(:now::timestamptz, now()) as accepted_at from stored;

-- name: policies
select lane::text as lane, name, on_failure, block_for from duly.streams
where lane = any(:lanes::uuid[]);

-- name: limit
-- Heads that failed and block their streams for a limited time, counted from the first failure.
update duly.agenda a
set unblocks_at = coalesce(:now::timestamptz, now()) + s.block_for * interval '1 second'
from duly.streams s
where a.lane = any(:lanes::uuid[]) and s.lane = a.lane and a.token is null
  and a.unblocks_at is null and s.block_for is not null;

-- name: finish
-- Heads without followers, the usual end of a short stream: as agenda.complete, if certainly no
-- transaction is adding to the stream (see advance). It returns the lanes to which it did not
-- apply; these are left to advance.
with outcome as materialized (
    select o.*, a.place, a.delivery, s.quiet from unnest(
        :lane::text::uuid[], :token::text::bigint[], :position::text::bigint[],
        :started_us::text::bigint[], :finished_us::text::bigint[], :answer::text[]
    ) as o(lane, token, position, started_at, finished_at, answer)
    left join lateral (
        select a.ctid as place, a.delivery from duly.agenda a
        where a.lane = o.lane and a.token = o.token and a.position = o.position
          and a.replay_from is null
        offset 0
    ) a on true
    left join lateral (
        select true as quiet from duly.streams s
        where s.lane = o.lane and s.counter = o.position and a.place is not null
        for update skip locked
    ) s on true
), ended as (
    delete from duly.agenda a
    where a.ctid = any(array(select place from outcome where quiet))
      and a.token = any(array(select distinct token from outcome)) and a.replay_from is null
    returning a.lane, a.token, a.delivery
), finished as (
    update duly.deliveries d
    set state = 'completed', attempt = d.attempt + 1, token = o.token,
        started_at = to_timestamp(o.started_at / 1e6::float8),
        finished_at = to_timestamp(o.finished_at / 1e6::float8), reason = null, error = null
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

-- name: advance
-- Settles the heads of streams. Several of one lane may be given, in their order; `more` marks all
-- but the last of them. If the run continues, its follower becomes the head under the same token;
-- otherwise the next in the queue does, and the lane is released.
--
-- A lane is removed only if certainly no transaction is adding to its stream: the stream's row
-- could be locked at once, and its counter is the position of the last delivery settled. Otherwise,
-- if no next one is visible, the lane is due again in a moment. This never waits for a transaction
-- that adds, which may be long.
with outcome as materialized (
    select o.*, a.place, a.replay_from, a.halted from unnest(
        :lane::text::uuid[], :token::text::bigint[], :delivery::text::uuid[],
        :position::text::bigint[], :started_us::text::bigint[], :finished_us::text::bigint[],
        :apart::boolean[], :blocks::boolean[], :follower::uuid[], :follower_position::bigint[],
        :more::boolean[], :answer::text[]
    ) as o(lane, token, delivery, position, started_at, finished_at, apart, blocks, follower,
           follower_position, more, answer)
    left join lateral (
        select a.ctid as place, a.replay_from, a.halted from duly.agenda a
        where a.lane = o.lane and a.token = o.token offset 0
    ) a on true
), ending as materialized (
    select * from outcome where more is null and place is not null
), quiet as materialized (
    select s.lane from duly.streams s join ending o on o.lane = s.lane
    where s.lane = any(array(select lane from ending where follower is null and blocks is null))
      and s.counter = o.position and o.replay_from is null
    for update of s skip locked
), ended as (
    delete from duly.agenda a
    where a.ctid = any(array(select place from ending where lane in (select lane from quiet)))
      and a.token = any(array(select distinct token from ending)) and a.replay_from is null
    returning a.lane, a.token
), going as materialized (
    select o.*, n.id as next, least(n.due_at, n.expires_at) as next_due_at, n.target, n.priority,
           n.position as next_position
    from ending o left join lateral (
        select d.id, d.due_at, d.expires_at, d.target, d.priority, d.position from duly.deliveries d
        where d.lane = o.lane and d.position >= least(o.replay_from, o.position + 1)
          and d.state = 'pending'
          and (o.replay_from is null
               or not exists (select from outcome f where f.lane = o.lane and f.delivery = d.id))
        order by d.position limit 1
    ) n on o.follower is null and o.blocks is null
    where o.lane not in (select lane from quiet)
), moved as (
    update duly.agenda a
    set delivery = coalesce(o.follower, o.next, o.delivery, a.delivery),
        -- All later ones may have left the queue: then continue at the stream's last position.
        position = coalesce(o.follower_position, o.next_position, case when o.blocks is null then (
            select s.counter from duly.streams s where s.lane = o.lane) end, o.position),
        token = case when o.follower is not null then a.token end,
        claimed_at = case when o.follower is not null then a.claimed_at end,
        crashes = case when o.follower is not null then a.crashes else 0 end,
        target = coalesce(o.target, a.target),
        priority = case when o.follower is not null then a.priority
                   else coalesce(o.priority, a.priority) end,
        replay_from = case when o.follower is not null or o.blocks then a.replay_from end,
        halted = case when o.blocks then 'blocked' else a.halted end,
        halted_at = case when o.blocks then coalesce(:now::timestamptz, now())
                    else a.halted_at end,
        -- The delivery that failed may be a follower of the lane's head.
        unblocks_at = case when o.blocks and a.delivery = o.delivery then a.unblocks_at end,
        due_at = case
            when o.follower is not null then a.due_at
            when o.blocks or a.halted is not null then '9999-12-31Z'::timestamptz
            when o.next is not null then o.next_due_at
            else coalesce(:now::timestamptz, now()) + interval '50 milliseconds' end
    from going o
    where a.ctid = any(array(select place from going)) and a.lane = o.lane and a.token = o.token
      and a.replay_from is not distinct from o.replay_from
      and a.halted is not distinct from o.halted
    returning a.lane, o.token
), touched as materialized (
    select lane, token from ended union all select lane, token from moved
), finished as (
    update duly.deliveries d
    set state = 'completed', attempt = d.attempt + 1, token = o.token,
        started_at = to_timestamp(o.started_at / 1e6::float8),
        finished_at = to_timestamp(o.finished_at / 1e6::float8), reason = null, error = null
    from outcome o
    where d.id = any(array(
            select delivery from outcome
            where apart is null and (lane, token) in (select lane, token from touched)))
      and d.id = o.delivery and d.state = 'pending'
      and (o.lane, o.token) in (select lane, token from touched)
    returning d.id, d.attempt, d.token, d.started_at, d.finished_at, o.answer
), logged as (
    insert into duly.attempts
        (delivery, attempt, outcome, token, started_at, finished_at, answer)
    select id, attempt, 'completed', token, started_at, finished_at, answer from finished
    where :answered::boolean and answer is not null
), apart as (
    -- A delivery that leaves the queue gets a separate lane, in which it is settled.
    insert into duly.agenda (lane, delivery, due_at, token, claimed_at, target, priority, schedule)
    select d.id, d.id, d.due_at, o.token, coalesce(:now::timestamptz, now()), d.target, d.priority,
           case when d.occasion::json ->> 'overlap' <> 'allow' then d.schedule end
    from outcome o cross join lateral (
        select * from duly.deliveries d where d.id = o.delivery and d.state = 'pending' offset 0
    ) d
    where o.apart and (o.lane, o.token) in (select lane, token from touched)
    returning delivery
), gone as (
    update duly.deliveries d set lane = null
    where d.id = any(array(select delivery from apart))
      and d.id <> all(array(select delivery from outcome where blocks))
)
select o.lane::text as lane, o.token from outcome o
where not exists (select from touched t where t.lane = o.lane and t.token = o.token);

-- name: hold
select lane::text as lane from duly.agenda where lane = any(:lanes::uuid[]) order by lane
for update;

-- name: stay
-- Lanes whose head stays after it was released: a stream that was paused meanwhile is never due,
-- and if an earlier delivery was put back meanwhile, that becomes the head.
with earlier as materialized (
    select a.lane, d.* from duly.agenda a left join lateral (
        select d.id, least(d.due_at, d.expires_at) as due_at, d.target, d.priority, d.position
        from duly.deliveries d
        where d.lane = a.lane and d.position >= a.replay_from and d.position < a.position
          and d.state = 'pending' and a.crashes = 0
        order by d.position limit 1
    ) d on true
    where a.lane = any(:lanes::uuid[]) and a.token is null
      and (a.halted is not null or a.replay_from < a.position)
)
update duly.agenda a
set delivery = coalesce(e.id, a.delivery), position = coalesce(e.position, a.position),
    target = coalesce(e.target, a.target), priority = coalesce(e.priority, a.priority),
    replay_from = case when e.id is null then a.replay_from end,
    unblocks_at = case when e.id is null then a.unblocks_at end,
    due_at = case when a.halted is not null then '9999-12-31Z'::timestamptz
             else coalesce(e.due_at, a.due_at) end
from earlier e
where a.lane = any(:lanes::uuid[]) and a.lane = e.lane and a.token is null;

-- name: own_lanes
select id::text as id, id::text as lane from duly.deliveries where id = any(:ids::uuid[]);

-- name: enlist
-- Moves a delivery from its separate lane to the end of its stream's queue. It was planned before
-- it was due, so it has not joined the queue yet.
with mine as (
    delete from duly.agenda where lane = :lane::uuid and token = :token returning delivery
), stream as (
    insert into duly.streams (namespace, name, counter, used_at)
    select :namespace, :stream, 1, coalesce(:now::timestamptz, now()) from mine
    on conflict (namespace, name) do update
    set counter = streams.counter + 1, used_at = excluded.used_at
    returning lane, counter, paused_at
), enlisted as (
    update duly.deliveries d set lane = s.lane, position = s.counter
    from stream s where d.id = (select delivery from mine)
    returning d.id, d.target, d.priority, d.due_at, d.lane, d.position
), laid as (
    insert into duly.agenda (lane, delivery, target, priority, due_at, position, halted, halted_at)
    select e.lane, e.id, e.target, e.priority,
           case when s.paused_at is null then e.due_at else '9999-12-31Z'::timestamptz end,
           e.position, case when s.paused_at is not null then 'paused' end, s.paused_at
    from enlisted e cross join stream s
    on conflict (lane) do nothing
)
select id::text as id from enlisted;

-- name: unjoined
-- A delivery in a separate lane, and the earlier occurrences of its schedule in theirs, earliest
-- first. This does not wait for locked lanes: the transaction that locks them changes them.
with mine as materialized (
    select d.schedule, d.due_at, d.occurrence
    from duly.agenda a join duly.deliveries d on d.id = a.delivery
    where a.lane = :lane::uuid and a.token = :token and a.position is null
), found as materialized (
    select a.lane, d.id, d.due_at, d.occurrence,
           d.position is null and d.occasion::json ->> 'overlap' = 'queue' as joins
    from mine m join duly.agenda a on a.schedule = m.schedule and a.position is null
    join duly.deliveries d on d.id = a.delivery
    where (d.due_at, d.occurrence) <= (m.due_at, m.occurrence)
    order by d.due_at, d.occurrence limit :most
), locked as materialized (
    select a.lane, a.token from duly.agenda a
    where a.lane = any(array(select lane from found)) for update skip locked
)
select f.id::text as id, f.lane::text as lane,
       f.joins and l.lane is not null and coalesce(l.token = :token, true) as free
from found f left join locked l on l.lane = f.lane
order by f.due_at, f.occurrence;

-- name: join
-- Moves deliveries from separate lanes, all locked, to the end of a stream's queue, in the given
-- order.
with stream as (
    update duly.streams set counter = counter + cardinality(:ids::uuid[]),
           used_at = coalesce(:now::timestamptz, now())
    where lane = :line::uuid returning lane, name, counter, paused_at
), given as materialized (
    select id, place from unnest(:ids::uuid[]) with ordinality as t(id, place)
), gone as (
    delete from duly.agenda where lane = any(:ids::uuid[])
), joined as (
    update duly.deliveries d
    set stream = s.name, lane = s.lane, position = s.counter - cardinality(:ids::uuid[]) + g.place
    from stream s cross join given g
    where d.id = any(:ids::uuid[]) and d.id = g.id
    returning d.id, d.target, d.priority, d.due_at, d.lane, d.position
), laid as (
    insert into duly.agenda (lane, delivery, target, priority, due_at, position, halted, halted_at)
    select j.lane, j.id, j.target, j.priority,
           case when s.paused_at is null then j.due_at else '9999-12-31Z'::timestamptz end,
           j.position, case when s.paused_at is not null then 'paused' end, s.paused_at
    from joined j cross join stream s order by j.position limit 1
    on conflict (lane) do nothing
)
select id::text as id from joined;

-- name: cancel_line
-- Cancels the pending deliveries of a stream at or after a position.
with ended as (
    update duly.deliveries
    set state = 'cancelled', finished_at = coalesce(:now::timestamptz, now()), reason = 'cancelled', lane = null
    where lane = :lane::uuid and position >= :since and state = 'pending'
    returning id, attempt
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at)
    select id, attempt, 'cancelled', coalesce(:now::timestamptz, now()) from ended
)
select id::text as id from ended;
