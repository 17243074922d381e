-- Deliveries with a unique key. A transaction that adds, retries or settles one locks its key first, and only
-- then lanes: so none can come in between, and none waits for the other.

-- name: lock
-- Keys locked in order, created if needed, and how their deliveries are (migration 0029).
select * from duly.lock_keys(:target::integer[], :key::text[], :now::timestamptz);

-- name: try_lock
-- Those keys that nobody else has locked for long.
select * from duly.try_lock_keys(:target::integer[], :key::text[]);

-- name: accept
with given as materialized (
    select * from unnest(
        :id::uuid[], :target::integer[], :priority::smallint[], :unique_key::text[],
        :address::text[], :due_at::timestamptz[], :expires_at::timestamptz[], :tags::text[],
        :retry::text[], :payload::bytea[], :is_shut::boolean[], :times::integer[]
    ) as t(id, target, priority, unique_key, address, due_at, expires_at, tags, retry, payload,
           is_shut, times)
), stored as (
    insert into duly.deliveries
        (id, target, priority, namespace, unique_key, address, due_at, accepted_at, expires_at,
         tags, retry, payload, replaced, replaced_at)
    select id, target, priority, :namespace, unique_key, address, due_at,
           coalesce(:now::timestamptz, now()), expires_at, tags::jsonb, retry, payload,
           nullif(times, 0), case when times > 0 then coalesce(:now::timestamptz, now()) end
    from given
)
insert into duly.agenda (lane, delivery, target, priority, due_at)
select id, id, target, priority,
       case when is_shut then '9999-12-31Z'::timestamptz else due_at end
from given;

-- name: replace
select duly.replace_waiting(
    t.id, t.payload, t.address, t.priority, t.expires_at, t.tags::jsonb, t.retry, t.due_at, t.times,
    coalesce(:now::timestamptz, now()))
from unnest(
    :id::uuid[], :payload::bytea[], :address::text[], :priority::smallint[],
    :expires_at::timestamptz[], :tags::text[], :retry::text[], :due_at::timestamptz[],
    :times::integer[]
) as t(id, payload, address, priority, expires_at, tags, retry, due_at, times);

-- name: point
update duly.unique_keys u set waiting = t.waiting, running = t.running
from unnest(:target::integer[], :key::text[], :waiting::uuid[], :running::uuid[])
    as t(target, key, waiting, running)
where u.ctid = any(array({places})) and u.target = t.target and u.key = t.key;

-- name: drop
delete from duly.unique_keys u where u.ctid = any(array({places}));

-- name: places
-- Where the rows of keys are, which are locked and so stay there.
select k.place from unnest(:target::integer[], :key::text[]) as g(target, key)
cross join lateral (
    select u.ctid as place from duly.unique_keys u where u.target = g.target and u.key = g.key
    offset 0
) k

-- name: open
-- The running one has ended: the one that waited for it is due when it is due.
update duly.agenda a set due_at = d.due_at
from duly.deliveries d
where a.lane = any(:ids::uuid[]) and d.id = a.lane and a.token is null
  and a.due_at >= '9999-12-31Z'::timestamptz;

-- name: shut
update duly.agenda set due_at = '9999-12-31Z'::timestamptz
where lane = any(:ids::uuid[]) and token is null;

-- name: supersede
-- Ends deliveries, pending or dead, whose place a later one with the same key has taken.
with given as materialized (
    select t.id, t.note, d.state from unnest(:id::uuid[], :note::text[]) as t(id, note)
    cross join lateral (
        select d.state from duly.deliveries d
        where d.id = t.id and d.state in ('pending', 'dead') for update
    ) d
), gone as (
    delete from duly.agenda a
    where a.lane = any(array(select id from given)) and a.token is null
), ended as (
    update duly.deliveries d
    set state = 'cancelled', reason = 'superseded', error = g.note, dead_at = null,
        fingerprint = null, finished_at = coalesce(:now::timestamptz, now())
    from given g
    where d.id = any(array(select id from given)) and d.id = g.id
    returning d.id, d.attempt, g.note, g.state
)
insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
select id, attempt, case state when 'dead' then 'discarded' else 'superseded' end,
       coalesce(:now::timestamptz, now()), 'superseded', note
from ended;

-- name: same
-- Unique deliveries with these ids: a request that was repeated.
select id::text as id, target, unique_key, due_at,
       case when (select a.token from duly.agenda a where a.lane = d.id) is null
            then d.state else 'processing' end as state
from duly.deliveries d where id = any(:ids::uuid[]);

-- name: before
-- The delivery that a waiting one waits for.
select u.running::text as id from duly.deliveries d
join duly.unique_keys u on u.target = d.target and u.key = d.unique_key and u.waiting = d.id
where d.id = :id::uuid and u.running is not null;

-- name: dead
-- The keys of dead letters, those with the latest contents first.
select id::text as id, target, unique_key from duly.deliveries
where id = any(:ids::uuid[]) and unique_key is not null and state = 'dead'
  and disposition is distinct from 'given_up'
order by coalesce(replaced_at, accepted_at) desc, id desc;

-- name: held_under
-- The keys of deliveries that are held under the tokens from one to another.
select distinct d.target, d.unique_key from duly.claims c
cross join lateral unnest(c.lanes) as l(lane)
cross join lateral (
    select d.target, d.unique_key from duly.deliveries d
    where d.id = l.lane and d.unique_key is not null offset 0
) d
where c.token >= :first and c.token <= :last;

-- name: of_lanes
select distinct target, unique_key from duly.deliveries
where id = any(:lanes::uuid[]) and unique_key is not null;

-- name: unsettle
-- It waits for a worker that looks at the key now: that one may not have seen the settlement.
insert into duly.unsettled_keys (target, key)
select target, key from unnest(:target::integer[], :key::text[]) as t(target, key)
order by target, key
on conflict (target, key) do update set key = excluded.key;

-- name: unsettled
select target, key from duly.unsettled_keys limit :limit;

-- name: settled
delete from duly.unsettled_keys u using unnest(:target::integer[], :key::text[]) as t(target, key)
where u.target = t.target and u.key = t.key;

-- name: slice
-- A slice of the keys after the given one, each with whether it must be looked at: the delivery that
-- waits has no lane, or it waits for another.
select u.target, u.key, u.running is not null or a.lane is null as is_doubtful
from (
    select * from duly.unique_keys
    where (target, key) > (:after_target::integer, :after_key::text)
    order by target, key limit :limit
) u
left join lateral (select a.lane from duly.agenda a where a.lane = u.waiting offset 0) a on true
order by u.target, u.key;

-- name: forget
delete from duly.unique_keys
where target in (select id from duly.targets where namespace = :namespace);
