-- name: accept
-- A delivery that exists with the same id or key is not changed.
with stored as (
    insert into duly.deliveries
        (id, target, priority, namespace, key, address, due_at, accepted_at, expires_at, tags,
         retry, payload)
    select id, target, priority, :namespace, key, address,
           coalesce(due_at,
                    coalesce(:now::timestamptz, now()) + coalesce(after, 0) * interval '1 second'),
           coalesce(:now::timestamptz, now()), expires_at, tags::jsonb, retry, payload
    from unnest(
        :id::text::uuid[], :target::text::integer[], :priority::text::smallint[], :key::text[],
        :address::text[], :due_at::timestamptz[], :after::double precision[], :expires_at::timestamptz[],
        :tags::text[], :retry::text[], :payload::bytea[]
    ) as t(id, target, priority, key, address, due_at, after, expires_at, tags, retry, payload)
    on conflict do nothing
    returning id, target, priority, due_at
), laid as (
    insert into duly.agenda (lane, delivery, target, priority, due_at)
    select id, id, target, priority, due_at from stored
    returning lane
)
select count(*) as stored, coalesce(:now::timestamptz, now()) as accepted_at from laid;

-- name: accept_new
-- As accept, for deliveries without a key and with new ids: no conflict is possible.
with given as materialized (
    select id, target, priority, address, expires_at, tags, retry, payload,
           coalesce(due_at, coalesce(:now::timestamptz, now())
                            + coalesce(after, 0) * interval '1 second') as due_at
    from unnest(
        :id::text::uuid[], :target::text::integer[], :priority::text::smallint[], :address::text[],
        :due_at::timestamptz[], :after::double precision[], :expires_at::timestamptz[],
        :tags::text[], :retry::text[], :payload::bytea[]
    ) as t(id, target, priority, address, due_at, after, expires_at, tags, retry, payload)
), stored as (
    insert into duly.deliveries
        (id, target, priority, namespace, address, due_at, accepted_at, expires_at, tags, retry,
         payload)
    select id, target, priority, :namespace, address, due_at,
           coalesce(:now::timestamptz, now()), expires_at, tags::jsonb, retry, payload
    from given
), laid as (
    insert into duly.agenda (lane, delivery, target, priority, due_at)
    select id, id, target, priority, due_at from given
)
select count(*) as stored, coalesce(:now::timestamptz, now()) as accepted_at from given;

-- name: known
select id::text as id, target, payload, address, batch::text as batch, key, due_at,
       case when (select a.token from duly.agenda a
                  where a.lane = coalesce(d.lane, d.id) and a.delivery = d.id) is null
            then d.state else 'processing' end as state
from duly.deliveries d
where id = any(:id::uuid[]) or (namespace = :namespace and key = any(:key::text[]));

-- name: get
select * from duly.booked where id = :id::uuid and namespace = :namespace;

-- name: unfinished
select id::text as id from duly.deliveries
where id = any(:ids::uuid[]) and state = 'pending';

-- name: attempts
select delivery::text as delivery, attempt, outcome, token, started_at, finished_at, next_at,
       reason, error, answer, traceback, exception
from duly.attempts where delivery = :id::uuid
union all
select id::text, attempt, state, token, started_at, finished_at, null, reason, error, null, null,
       null
from duly.deliveries where id = :id::uuid and state = 'completed'
  and not exists (select from duly.attempts where delivery = :id::uuid and outcome = 'completed')
order by finished_at;

-- name: cancel
with gone as (
    delete from duly.agenda a using duly.deliveries d
    where a.lane = :id::uuid and a.delivery = :id::uuid and a.token is null
      and d.id = :id::uuid and d.namespace = :namespace
    returning a.delivery
), cancelled as (
    update duly.deliveries d
    set state = 'cancelled', finished_at = coalesce(:now::timestamptz, now())
    where d.id = any(array(select delivery from gone)) and d.state = 'pending'
    returning d.id, d.attempt
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at)
    select id, attempt, 'cancelled', coalesce(:now::timestamptz, now()) from cancelled
)
select id::text as id from cancelled;

-- name: hurry
-- Makes a waiting delivery due now; for those in a stream's queue see queue.sql.
with hurried as (
    update duly.agenda a set due_at = coalesce(:now::timestamptz, now())
    from duly.deliveries d
    where a.lane = :id::uuid and a.token is null and d.id = :id::uuid
      and d.namespace = :namespace
      and (d.unique_key is null or a.due_at < '9999-12-31Z'::timestamptz)
    returning a.lane
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at)
    select lane, 0, 'retried', coalesce(:now::timestamptz, now()) from hurried
)
select lane::text as id from hurried;

-- name: late
select b.* from duly.agenda a join duly.booked b on b.id = a.delivery
where a.token is null and a.priority = :priority and a.target = :target
  and a.due_at < coalesce(:now::timestamptz, now()) - :grace * interval '1 second'
order by a.due_at limit :limit;

-- name: held
select b.* from duly.claims c
cross join lateral unnest(c.lanes) as l(lane)
join duly.agenda a on a.lane = l.lane and a.token = c.token
join duly.booked b on b.id = a.delivery
where b.namespace = :namespace
  and a.claimed_at < coalesce(:now::timestamptz, now()) - :held_for * interval '1 second'
order by a.claimed_at limit :limit;

-- name: blocking
-- Dead letters that block their streams, the longest blocked first.
select b.* from duly.agenda a join duly.booked b on b.id = a.delivery
where a.halted = 'blocked' and b.namespace = :namespace
order by a.halted_at limit :limit;

-- name: target_numbers
select id, name from duly.targets where namespace = :namespace;

-- name: target_names
select id, namespace, name from duly.targets where id = any(:numbers::integer[]);

-- name: namespaces
-- A namespace in use has a key or a target.
select namespace from (
    select distinct namespace from duly.targets union select distinct namespace from duly.keys
) known
where (:served::text[] is null or namespace = any(:served::text[])) order by namespace;

-- name: create_target
insert into duly.targets (namespace, name)
select :namespace, unnest(:name::text[]) on conflict do nothing;
