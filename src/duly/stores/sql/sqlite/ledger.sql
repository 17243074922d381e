-- name: accept
-- All requests at once: id, target, priority, key, address, due_at, after, expires_at, tags, retry,
-- payload. A delivery that exists with the same id or key is not changed; a trigger adds the others
-- to the agenda.
insert into duly.deliveries
    (id, target, priority, namespace, key, address, due_at, accepted_at, expires_at, tags, retry,
     payload)
select value ->> 0, value ->> 1, value ->> 2, :namespace, value ->> 3, value ->> 4,
       coalesce(value ->> 5, :now + cast(value ->> 6 as real) * 1000000, :now),
       :now, value ->> 7, value ->> 8, value ->> 9, cast(value ->> 10 as blob)
from json_each(:batch) where true
on conflict do nothing;
select changes() as stored, :now as accepted_at;

-- name: accept_new
-- As accept, for deliveries without a key and with new ids: no conflict is possible.
insert into duly.deliveries
    (id, target, priority, namespace, address, due_at, accepted_at, expires_at, tags, retry,
     payload)
select value ->> 0, value ->> 1, value ->> 2, :namespace, value ->> 3,
       coalesce(value ->> 4, :now + cast(value ->> 5 as real) * 1000000, :now),
       :now, value ->> 6, value ->> 7, value ->> 8, cast(value ->> 9 as blob)
from json_each(:batch);
select changes() as stored, :now as accepted_at;

-- name: known
-- Runs once for each request.
select id, target, payload, address, batch, key, due_at,
       case when (select a.token from duly.agenda a
                  where a.lane = coalesce(d.lane, d.number) and a.delivery = d.number) is null
            then d.state else 'processing' end as state
from duly.deliveries d
where id = :id or (namespace = :namespace and key = :key);

-- name: get
select * from duly.booked where id = :id and namespace = :namespace;

-- name: unfinished
select id from duly.deliveries
where id in (select value from json_each(:ids)) and state = 'pending';

-- name: attempts
select delivery, attempt, outcome, token, started_at, finished_at, next_at, reason, error, answer,
       traceback, exception
from duly.attempts where delivery = :id
union all
select id, attempt, state, token, started_at, finished_at, null, reason, error, null, null, null
from duly.deliveries where id = :id and state = 'completed'
  and not exists (select 1 from duly.attempts where delivery = :id and outcome = 'completed')
order by finished_at;

-- name: cancel
update duly.deliveries set state = 'cancelled', finished_at = :now
where id = :id and namespace = :namespace and state = 'pending'
  and exists (select 1 from duly.agenda where delivery = number and lane = number and token is null)
returning id;
insert into duly.attempts (delivery, attempt, outcome, finished_at)
select id, attempt, 'cancelled', :now from duly.deliveries where id = :id and changes() = 1;
delete from duly.agenda where token is null and lane = (
    select number from duly.deliveries where id = :id and state = 'cancelled');

-- name: hurry
-- Makes a waiting delivery due now; for those in a stream's queue see queue.sql.
update duly.agenda set due_at = :now
where token is null and lane = (
    select d.number from duly.deliveries d where d.id = :id and d.namespace = :namespace
      and (d.unique_key is null or duly.agenda.due_at < 253402214400000000))
returning lane;
insert into duly.attempts (delivery, attempt, outcome, finished_at)
select :id, 0, 'retried', :now where changes() = 1;

-- name: late
select b.* from duly.agenda a
join duly.deliveries d on d.number = a.delivery join duly.booked b on b.id = d.id
where a.token is null and a.priority = :priority and a.target = :target
  and a.due_at < :now - cast(:grace * 1000000 as integer)
order by a.due_at limit :limit;

-- name: held
select b.* from duly.agenda a
join duly.deliveries d on d.number = a.delivery join duly.booked b on b.id = d.id
where a.token is not null and b.namespace = :namespace
  and a.claimed_at < :now - cast(:held_for * 1000000 as integer)
order by a.claimed_at limit :limit;

-- name: blocking
-- Dead letters that block their streams, the longest blocked first.
select b.* from duly.agenda a
join duly.deliveries d on d.number = a.delivery join duly.booked b on b.id = d.id
where (a.halted is not null or a.crashes > 0) and a.halted = 'blocked' and b.namespace = :namespace
order by a.halted_at limit :limit;

-- name: target_numbers
select id, name from duly.targets where namespace = :namespace;

-- name: target_names
select id, namespace, name from duly.targets where id in (select value from json_each(:numbers));

-- name: namespaces
-- A namespace in use has a key or a target.
select namespace from (
    select distinct namespace from duly.targets union select distinct namespace from duly.keys
) known
where (:served is null or namespace in (select value from json_each(:served))) order by namespace;

-- name: create_target
insert into duly.targets (namespace, name) values (:namespace, :name) on conflict do nothing;
