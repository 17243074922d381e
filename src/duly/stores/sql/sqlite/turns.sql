-- name: visit
-- The keys after the given one that have a lane to claim, with its due moment and, for limit keys,
-- their state. One index probe for each key, regardless of how many lanes it has. Per request
-- (priority, target, after, most) at most :visits keys, and no more than `most` of them with a
-- lane that is due.
with recursive ask(place, priority, target, after, most) as materialized (
    select key, value ->> 0, value ->> 1, value ->> 2, value ->> 3 from json_each(:batch)
), visit(place, priority, target, most, turn, due_at, seen, due) as (
    select k.place, k.priority, k.target, k.most, a.turn, a.due_at, 1, a.due_at <= :now
    from ask k join duly.agenda a on a.lane = (
        select n.lane from duly.agenda n
        where n.token is null and n.target = k.target and n.priority = k.priority
          and n.turn > k.after
        order by n.turn, n.due_at limit 1)
    union all
    select v.place, v.priority, v.target, v.most, a.turn, a.due_at, v.seen + 1,
           v.due + (a.due_at <= :now)
    from visit v join duly.agenda a on a.lane = (
        select n.lane from duly.agenda n
        where n.token is null and n.target = v.target and n.priority = v.priority
          and n.turn > v.turn
        order by n.turn, n.due_at limit 1)
    where v.seen < :visits and v.due < v.most
)
select json_group_array(json_array(
    v.place, v.turn, v.due_at, l.version,
    iif(v.turn > 'limit:', (
        select count(*) from duly.agenda h
        where h.token is not null and h.target = v.target and h.turn = v.turn), null),
    l.paced_at, :now
)) as "packed: place turn due_at version held paced_at seen_at"
from visit v left join duly.limit_keys l on l.target = v.target and l.turn = v.turn;

-- name: claim
-- As agenda.claim, for the keys that were chosen: priority, target, turn, many, version, in_flight,
-- at_once, ahead_to, paced_at, interval. version is null for a fair key, 0 for a limit key without a row. A key
-- with a rate gives nothing if its version has changed: another worker has claimed.
update duly.agenda set token = :token, claimed_at = :now
where lane in (
    with asked(place, priority, target, turn, many, version, in_flight, at_once, ahead_to, interval,
               held) as materialized (
        select key, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
               value ->> 6, value ->> 7, value ->> 9, iif(value ->> 5 is null, null, (
                   select count(*) from duly.agenda h
                   where h.token is not null and h.target = value ->> 1 and h.turn = value ->> 2))
        from json_each(:batch)
    ), wanted(place, priority, target, turn, many, version, interval) as materialized (
        select place, priority, target, turn, iif(in_flight is null, many,
                   min(many, max(at_once, ahead_to - held), in_flight - held)),
               version, interval
        from asked
    )
    select lane from (
        select a.lane, w.place, w.many,
               row_number() over (partition by w.place order by a.due_at) as rank
        from wanted w cross join duly.agenda a
        where a.lane in (
            select l.lane from duly.agenda l
            where l.token is null and l.target = w.target and l.priority = w.priority
              and l.turn = w.turn and l.due_at <= :now
            order by l.due_at limit (select max(0, max(many)) from wanted))
          and (w.interval is null or w.version = coalesce((
            select k.version from duly.limit_keys k
            where k.target = w.target and k.turn = w.turn), 0))
          and not exists (
            select 1 from duly.endpoints e where e.target = -w.target and e.state <> 'active')
    ) where rank <= many order by place limit :slots
) and exists (select 1 from duly.workers w where w.id = :worker and w.ended_at is null);
-- "+ 0" keeps the query planner from using the index on token.
insert into duly.limit_keys (target, turn, version, paced_at)
select target, turn, 1, paced_at + cast(many * interval * 1000000 as integer) from (
    select value ->> 1 as target, value ->> 2 as turn, value ->> 8 as paced_at,
           value ->> 9 as interval, (
               select count(*) from duly.agenda a
               where a.token is not null and a.token + 0 = :token and a.target = value ->> 1
                 and a.turn = value ->> 2) as many
    from json_each(:batch) where value ->> 4 is not null limit -1
) where many > 0
on conflict do update set version = version + 1, paced_at = coalesce(excluded.paced_at, paced_at);
select json_group_array(json_array(
    d.id, held.lane, held.token, -held.target, cast(d.payload as text), d.attempt, d.priority,
    held.crashes, d.due_at, nullif(held.due_at, d.due_at), d.expires_at, d.retry, d.key,
    d.occasion, d.address, d.stream, null, d.on_failure, 0,
    (d.expires_at - :now) / 1000000.0, null, held.turn
)) as "packed: id lane token target payload attempt priority crashes due_at ready_at expires_at
               retry key occasion address stream position on_failure joins expires_in unique_key
               turn"
from (
    select * from duly.agenda where token = :token and turn is not null
) held left join duly.deliveries d on d.number = held.delivery;

-- name: prune
-- Limit keys without lanes. At the lowest rate, the last start counts for a thousand seconds.
delete from duly.limit_keys where (target, turn) in (
    select k.target, k.turn from duly.limit_keys k
    where (k.paced_at is null or k.paced_at < :now - 2000000000)
      and not exists (
        select 1 from duly.agenda a
        where a.token is null and a.target = k.target and a.turn = k.turn
          and a.priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9))
      and not exists (
        select 1 from duly.agenda a
        where a.token is not null and a.target = k.target and a.turn = k.turn)
    limit :limit)
returning turn;

-- name: key
-- One limit key: how many of its lanes are in flight, and until when its rate is used up.
select (
    select count(*) from duly.agenda h
    where h.token is not null and h.target = l.target and h.turn = l.turn
) as held, l.paced_at, :now as seen_at
from duly.limit_keys l where l.target = -:target and l.turn = :turn;

-- name: keys
-- Limit keys of a target, and how many of each wait, up to a limit.
select l.turn, (
    select count(*) from duly.agenda h
    where h.token is not null and h.target = l.target and h.turn = l.turn
) as held, l.paced_at, (
    select count(*) from (
        select 1 from duly.agenda a
        where a.token is null and a.target = l.target and a.turn = l.turn
          and a.priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) limit :most)
) as waiting, :now as seen_at
from duly.limit_keys l where l.target = -:target and l.turn > :after order by l.turn limit :limit;
