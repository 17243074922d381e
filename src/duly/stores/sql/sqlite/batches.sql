-- name: accept_new
-- As ledger.accept_new, for members of one batch, which is open and locked.
insert into duly.deliveries
    (id, target, priority, namespace, address, due_at, accepted_at, expires_at, tags, retry,
     payload, batch)
select value ->> 0, value ->> 1, value ->> 2, :namespace, value ->> 3,
       coalesce(value ->> 4, :now + cast(value ->> 5 as real) * 1000000, :now),
       :now, value ->> 6, value ->> 7, value ->> 8, cast(value ->> 9 as blob), :in_batch
from json_each(:batch);
select changes() as stored, :now as accepted_at;

-- name: hold
-- Batches to which the transaction adds members. Until its commit none of them can be closed.
select id, closed_at is null as is_open from duly.batches
where id in (select value from json_each(:ids)) and namespace = :namespace
order by id;

-- name: open
-- One that exists with the same id is not changed.
insert into duly.batches (id, namespace, name, completion, address, opened_at)
values (:id, :namespace, :name, :completion, :address, :now)
on conflict do nothing
returning id;

-- name: columns
id, namespace, name, completion, address, opened_at, closed_at, cancelled_at,
finished_at, counted_at, pending, completed, dead, cancelled, delivery, problem

-- name: get
select {columns} from duly.batches where id = :id and namespace = :namespace;

-- name: page
-- Batches of all states, newest first.
select {columns} from duly.batches
where namespace = :namespace and id < :before
order by id desc limit :limit;

-- name: page_unfinished
-- Open or closed ones.
select {columns} from duly.batches
where namespace = :namespace and id < :before and finished_at is null
  and cancelled_at is null and (closed_at is null) = :is_open
order by id desc limit :limit;

-- name: page_finished
select {columns} from duly.batches
where namespace = :namespace and id < :before and finished_at is not null
  and cancelled_at is null
order by id desc limit :limit;

-- name: page_cancelled
select {columns} from duly.batches
where namespace = :namespace and id < :before and cancelled_at is not null
order by id desc limit :limit;

-- name: processing
-- How many members workers hold, of each of these batches.
select d.batch as id, count(*) as count from duly.agenda a
join duly.deliveries d on d.number = a.delivery
where a.token is not null and d.batch in (select value from json_each(:ids))
group by d.batch;

-- name: survey
-- The states of the next members after one of them, in the order of their ids, and the last of
-- these ids.
select coalesce(sum(state = 'pending'), 0) as pending,
       coalesce(sum(state = 'completed'), 0) as completed,
       coalesce(sum(state = 'dead'), 0) as dead,
       coalesce(sum(state = 'cancelled'), 0) as cancelled, max(id) as last
from (
    select state, id from duly.deliveries
    where batch = :id and id > :after order by id limit :limit
) s;

-- name: pending
-- Members that have not ended.
select id, stream is not null as in_stream from duly.deliveries
where batch = :id and id > :after and state = 'pending' order by id limit :limit;

-- name: cancel_waiting
-- As ledger.cancel, for many; those in a stream are cancelled one by one.
insert into duly.attempts (delivery, attempt, outcome, finished_at)
select id, attempt, 'cancelled', :now from duly.deliveries
where id in (select value from json_each(:ids)) and state = 'pending'
  and exists (select 1 from duly.agenda where delivery = number and lane = number and token is null);
update duly.deliveries set state = 'cancelled', finished_at = :now
where id in (select value from json_each(:ids)) and state = 'pending'
  and exists (select 1 from duly.agenda where delivery = number and lane = number and token is null)
returning id;
delete from duly.agenda where token is null and lane in (
    select number from duly.deliveries
    where id in (select value from json_each(:ids)) and state = 'cancelled');

-- name: unfinished
-- Of all namespaces that are served.
select id, namespace, closed_at is not null as is_closed,
       cancelled_at is not null as is_cancelled, (:now - counted_at) / 1000000.0 as counted_ago
from duly.batches
where finished_at is null and (namespace, id) > (:after_namespace, :after)
  and (:served is null or namespace in (select value from json_each(:served)))
order by namespace, id limit :limit;

-- name: close
update duly.batches set closed_at = :now
where id = :id and namespace = :namespace and closed_at is null
returning id;

-- name: cancel
update duly.batches set cancelled_at = :now, closed_at = coalesce(closed_at, :now)
where id = :id and namespace = :namespace and cancelled_at is null and finished_at is null
returning id;

-- name: lock
-- A batch that may be finished, and its dead letters.
select {columns}, :now as now_at, (
    select count(*) from duly.deliveries d where d.batch = b.id and d.dead_at is not null
) as dead_now
from duly.batches b
where id = :id and namespace = :namespace and closed_at is not null and finished_at is null;

-- name: finish
update duly.batches
set finished_at = :finished_at, counted_at = :finished_at, pending = 0, completed = :completed,
    dead = :dead, cancelled = :cancelled, delivery = :delivery, problem = :problem
where id = :id;

-- name: count
-- Keeps what was counted.
update duly.batches
set counted_at = :now, pending = :pending, completed = :completed, dead = :dead,
    cancelled = :cancelled
where id = :id and finished_at is null;

-- name: prune
-- Finished batches without members.
delete from duly.batches where id in (
    select b.id from duly.batches b
    where b.namespace = :namespace and b.finished_at < :now - cast(:kept_for * 1000000 as integer)
      and not exists (select 1 from duly.deliveries d where d.batch = b.id)
    order by b.finished_at limit :limit)
returning id;
