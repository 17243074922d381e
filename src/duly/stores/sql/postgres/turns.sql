-- name: visit
-- The keys after the given one that have a lane to claim, with its due moment and, for limit keys,
-- their state. One index probe for each key, regardless of how many lanes it has. Per request
-- (priority, target, after, most) at most :visits keys, and no more than `most` of them with a
-- lane that is due.
with recursive ask as materialized (
    select * from unnest(:priority::text::smallint[], :target::text::integer[], :after::text[], :most::text::integer[])
        with ordinality as t(priority, target, after, most, place)
), visit as (
    select place, priority, target, most, after collate "C" as turn,
           null::timestamptz as due_at, 0 as seen, 0 as due
    from ask
    union all
    select v.place, v.priority, v.target, v.most, n.turn, n.due_at, v.seen + 1,
           v.due + (n.due_at <= coalesce(:now::timestamptz, now()))::integer
    from visit v cross join lateral (
        select a.turn, a.due_at from duly.agenda a
        where a.token is null and a.target = v.target and a.priority = v.priority
          and a.turn > v.turn
        order by a.turn, a.due_at limit 1
    ) n
    where v.seen < :visits and v.due < v.most
)
select v.place - 1 as place, v.turn, v.due_at, l.version, l.held, l.paced_at,
       coalesce(:now::timestamptz, now()) as seen_at
from visit v left join lateral (
    select l.version, l.paced_at, (
        select count(*) from duly.agenda a where a.lane = any(l.lanes) and a.token is not null
    ) as held
    from duly.limit_keys l where l.target = v.target and l.turn = v.turn offset 0
) l on starts_with(v.turn, 'limit:')
where v.due_at is not null
order by v.place, v.seen;

-- name: claim
-- As agenda.claim, for the keys that were chosen. The row of a limit key lists the lanes of its last
-- claims; those that are held are in flight. Its column tokens is not used. version is null for a
-- fair key, 0 for a limit key without a row. A key with a rate gives nothing if its version has
-- changed: another worker has claimed. So does any limit key whose version has changed since this
-- statement began: its snapshot does not have the lanes of that claim.
with wanted as materialized (
    select * from unnest(
        :priority::text::smallint[], :target::text::integer[], :turn::text[], :many::text::integer[],
        :version::text::bigint[], :in_flight::text::integer[], :at_once::text::integer[],
        :ahead_to::text::integer[], :paced_at::timestamptz[], :interval::double precision[]
    ) with ordinality as t(
        priority, target, turn, many, version, in_flight, at_once, ahead_to, paced_at, interval, place)
    where not exists (
        select from duly.endpoints e where e.target = -t.target and e.state <> 'active')
      and exists (select from duly.workers w where w.id = :worker and w.ended_at is null)
    order by place
), seen as materialized (
    select w.place, s.version from wanted w cross join lateral (
        select s.version from duly.limit_keys s
        where s.target = w.target and s.turn = w.turn offset 0
    ) s
    where w.version is not null
), locked as materialized (
    select s.place, l.row, h.* from wanted w join seen s on s.place = w.place
    cross join lateral (
        select l.ctid as row, l.lanes from duly.limit_keys l
        where l.target = w.target and l.turn = w.turn and l.version = s.version
          and (w.interval is null or l.version = w.version)
        for update skip locked
    ) l
    cross join lateral (
        select count(*) as held, array_agg(a.lane) as lanes from duly.agenda a
        where a.lane = any(l.lanes) and a.token is not null
    ) h
), picked as materialized (
    select w.*, s.place is null as is_new, l.lane, l.spot from wanted w
    left join seen s on s.place = w.place
    left join locked k on k.place = w.place
    cross join lateral (
        select a.lane, a.ctid as spot from duly.agenda a
        -- Written so that only agenda_turn has this order: if nearly all lanes had one key, the
        -- planner would look for the lanes of another among them, by their due moments.
        where a.token is null and a.target = w.target and a.priority = w.priority
          and a.turn >= w.turn
          and (a.turn, a.due_at) <= (w.turn, coalesce(:now::timestamptz, now()))
        order by a.turn, a.due_at
        limit case when w.in_flight is null then w.many else greatest(0, least(
            w.many, greatest(w.at_once, w.ahead_to - coalesce(k.held, 0)),
            w.in_flight - coalesce(k.held, 0))) end
        for update skip locked
    ) l
    where w.version is null or k.row is not null
       or (s.place is null and (w.interval is null or w.version = 0))
    limit :slots
), taken as materialized (
    select place, min(target) as target, min(turn) as turn, bool_and(is_new) as is_new,
           array_agg(lane) as lanes,
           min(paced_at) + count(*) * min(interval) * interval '1 second' as paced_at
    from picked where version is not null group by place
), created as (
    insert into duly.limit_keys (target, turn, version, lanes, tokens, paced_at)
    select target, turn, 1, lanes, '{}', paced_at from taken where is_new
    order by target, turn -- as every worker does: in another order, two could wait for each other
    on conflict do nothing
    returning target, turn
), counted as (
    -- The rows are locked, so their ctid is still valid.
    update duly.limit_keys l
    set version = l.version + 1, paced_at = coalesce(t.paced_at, l.paced_at),
        lanes = t.lanes || k.lanes
    from taken t join locked k on k.place = t.place
    where l.ctid = any(array(select row from locked)) and l.ctid = k.row
), held as (
    update duly.agenda a set token = :token, claimed_at = coalesce(:now::timestamptz, now())
    where a.ctid = any(array(
            select p.spot from picked p
            where p.version is null or not p.is_new
               or (p.target, p.turn) in (select target, turn from created)))
      and a.token is null
    returning a.lane, a.delivery, a.target, a.due_at, a.crashes, a.token, a.turn
), noted as (
    insert into duly.claims (token, lanes)
    select :token, array_agg(lane) from held having count(*) > 0
    on conflict (token) do update set lanes = claims.lanes || excluded.lanes
), forgotten as (
    delete from duly.claims where token = any(:finished::text::bigint[])
)
select d.id::text as id, nullif(h.lane, d.id)::text as lane, h.token, -h.target as target, d.payload,
       d.attempt, d.priority, h.crashes, d.due_at, nullif(h.due_at, d.due_at) as ready_at,
       d.expires_at, d.retry, d.key, d.occasion, d.address, d.stream, null::bigint as position,
       d.on_failure, false as joins,
       extract(epoch from d.expires_at - coalesce(:now::timestamptz, now()))::float8 as expires_in,
       null::text as unique_key, h.turn
from held h left join lateral (
    select * from duly.deliveries d where d.id = h.delivery offset 0
) d on true;

-- name: prune
-- Limit keys without lanes. At the lowest rate, the last start counts for a thousand seconds.
delete from duly.limit_keys l where l.ctid = any(array(
    select k.ctid from duly.limit_keys k
    where (k.paced_at is null or k.paced_at < coalesce(:now::timestamptz, now()) - interval '2000 seconds')
      and not exists (
        select from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) p(priority) cross join lateral (
            select a.turn from duly.agenda a
            where a.target = k.target and a.priority = p.priority and a.turn >= k.turn
            order by a.turn, a.due_at limit 1
        ) n
        where n.turn = k.turn)
    limit :limit for update skip locked))
returning l.turn;

-- name: key
-- One limit key: how many of its lanes are in flight, and until when its rate is used up.
select (
    select count(*) from duly.agenda a where a.lane = any(l.lanes) and a.token is not null
) as held, l.paced_at, coalesce(:now::timestamptz, now()) as seen_at
from duly.limit_keys l where l.target = -:target::integer and l.turn = :turn;

-- name: keys
-- Limit keys of a target, and how many of each wait, up to a limit.
select l.turn, l.held, l.paced_at, (
    select count(*) from (
        select from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) p(priority) cross join lateral (
            select from duly.agenda a
            where a.token is null and a.target = l.target and a.priority = p.priority
              and a.turn >= l.turn and a.turn <= l.turn
            order by a.turn, a.due_at limit :most) a
        limit :most) w) as waiting,
       coalesce(:now::timestamptz, now()) as seen_at
from (
    select l.*, (
        select count(*) from duly.agenda a
        where a.lane = any(l.lanes) and a.token is not null) as held
    from duly.limit_keys l
    where l.target = -:target::integer and l.turn > :after order by l.turn limit :limit
) l order by l.turn;
