-- name: accept_new
-- As ledger.accept_new, for members of one batch, which is open and locked.
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
         payload, batch)
    select id, target, priority, :namespace, address, due_at,
           coalesce(:now::timestamptz, now()), expires_at, tags::jsonb, retry, payload,
           :in_batch::uuid
    from given
), laid as (
    insert into duly.agenda (lane, delivery, target, priority, due_at)
    select id, id, target, priority, due_at from given
)
select count(*) as stored, coalesce(:now::timestamptz, now()) as accepted_at from given;

-- name: hold
-- Batches to which the transaction adds members. Until its commit none of them can be closed.
select b.id::text as id, b.closed_at is null as is_open from duly.batches b
where b.id = any(:ids::uuid[]) and b.namespace = :namespace
order by b.id for share;

-- name: open
-- One that exists with the same id is not changed.
insert into duly.batches (id, namespace, name, completion, address, opened_at)
values (:id::uuid, :namespace, :name, :completion, :address, coalesce(:now::timestamptz, now()))
on conflict do nothing
returning id::text as id;

-- name: columns
id::text as id, namespace, name, completion, address, opened_at, closed_at, cancelled_at,
finished_at, counted_at, pending, completed, dead, cancelled, delivery::text as delivery, problem

-- name: get
select {columns} from duly.batches where id = :id::uuid and namespace = :namespace;

-- name: page
-- Batches of all states, newest first.
select {columns} from duly.batches b
where namespace = :namespace and id < :before::uuid
order by b.id desc limit :limit;

-- name: page_unfinished
-- Open or closed ones.
select {columns} from duly.batches b
where namespace = :namespace and id < :before::uuid and finished_at is null
  and cancelled_at is null and (closed_at is null) = :is_open
order by b.id desc limit :limit;

-- name: page_finished
select {columns} from duly.batches b
where namespace = :namespace and id < :before::uuid and finished_at is not null
  and cancelled_at is null
order by b.id desc limit :limit;

-- name: page_cancelled
select {columns} from duly.batches b
where namespace = :namespace and id < :before::uuid and cancelled_at is not null
order by b.id desc limit :limit;

-- name: processing
-- How many members workers hold, of each of these batches.
select d.batch::text as id, count(*) as count from duly.claims c
cross join lateral unnest(c.lanes) as l(lane)
join duly.agenda a on a.lane = l.lane and a.token = c.token
join duly.deliveries d on d.id = a.delivery
where d.batch = any(:ids::uuid[])
group by d.batch;

-- name: survey
-- The states of the next members after one of them, in the order of their ids, and the last of
-- these ids.
select count(*) filter (where state = 'pending') as pending,
       count(*) filter (where state = 'completed') as completed,
       count(*) filter (where state = 'dead') as dead,
       count(*) filter (where state = 'cancelled') as cancelled, max(id::text) as last
from (
    select state, id from duly.deliveries
    where batch = :id::uuid and id > :after::uuid order by id limit :limit
) s;

-- name: pending
-- Members that have not ended.
select d.id::text as id, d.stream is not null as in_stream from duly.deliveries d
where d.batch = :id::uuid and d.id > :after::uuid and d.state = 'pending'
order by d.id limit :limit;

-- name: cancel_waiting
-- As ledger.cancel, for many; those in a stream are cancelled one by one.
with gone as (
    delete from duly.agenda a
    where a.lane = any(array(
        select lane from duly.agenda
        where lane = any(:ids::uuid[]) and delivery = lane and token is null
        order by lane for update skip locked)) and a.token is null
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

-- name: unfinished
-- Of all namespaces that are served.
select id::text as id, namespace, closed_at is not null as is_closed,
       cancelled_at is not null as is_cancelled,
       extract(epoch from coalesce(:now::timestamptz, now()) - counted_at)::float8 as counted_ago
from duly.batches b
where finished_at is null and (namespace, id) > (:after_namespace, :after::uuid)
  and (:served::text[] is null or namespace = any(:served::text[]))
order by b.namespace, b.id limit :limit;

-- name: close
update duly.batches set closed_at = coalesce(:now::timestamptz, now())
where id = :id::uuid and namespace = :namespace and closed_at is null
returning id::text as id;

-- name: cancel
update duly.batches
set cancelled_at = coalesce(:now::timestamptz, now()),
    closed_at = coalesce(closed_at, :now::timestamptz, now())
where id = :id::uuid and namespace = :namespace and cancelled_at is null and finished_at is null
returning id::text as id;

-- name: lock
-- A batch that may be finished, and its dead letters. If another transaction has it locked, nothing.
select {columns}, coalesce(:now::timestamptz, now()) as now_at, (
    select count(*) from duly.deliveries d where d.batch = b.id and d.dead_at is not null
) as dead_now
from duly.batches b
where id = :id::uuid and namespace = :namespace and closed_at is not null and finished_at is null
for update skip locked;

-- name: finish
update duly.batches
set finished_at = :finished_at, counted_at = :finished_at, pending = 0, completed = :completed,
    dead = :dead, cancelled = :cancelled, delivery = :delivery::uuid, problem = :problem
where id = :id::uuid;

-- name: count
-- Keeps what was counted. If a transaction adds a member meanwhile, the next count is kept.
update duly.batches
set counted_at = coalesce(:now::timestamptz, now()), pending = :pending, completed = :completed,
    dead = :dead, cancelled = :cancelled
where id = (
    select id from duly.batches
    where id = :id::uuid and finished_at is null for update skip locked);

-- name: prune
-- Finished batches without members.
delete from duly.batches where id = any(array(
    select b.id from duly.batches b
    where b.namespace = :namespace
      and b.finished_at < coalesce(:now::timestamptz, now()) - :kept_for * interval '1 second'
      and not exists (select from duly.deliveries d where d.batch = b.id)
    order by b.finished_at limit :limit))
returning id::text as id;
