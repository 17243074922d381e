-- name: get
select * from duly.endpoint_list where namespace = :namespace and name = :name;

-- name: some
select * from duly.endpoint_list where namespace = :namespace and name = any(:names::text[]);

-- name: page
select * from duly.endpoint_list where namespace = :namespace and name > :after order by name limit :limit;

-- name: lock
-- Locks one endpoint that is about to be changed.
select target from duly.endpoints where namespace = :namespace and name = :name
for update;

-- name: create
insert into duly.endpoints
    (target, namespace, name, url, description, method, headers, timeout, rate, in_flight, key_name,
     key_rate, key_in_flight, retry, secrets, state, state_reason, state_at, created_at)
values (:target, :namespace, :name, :url, :description, :method, :headers,
        :timeout::double precision, :rate::double precision, :in_flight::integer, :key_name,
        :key_rate::double precision, :key_in_flight::integer, :retry, :secrets, :state, :state_reason, :state_at::timestamptz, coalesce(:now::timestamptz, now()))
returning target;

-- name: change
update duly.endpoints
set version = version + 1, url = :url, description = :description, method = :method,
    headers = :headers, timeout = :timeout::double precision, rate = :rate::double precision,
    in_flight = :in_flight::integer, key_name = :key_name, key_rate = :key_rate::double precision,
    key_in_flight = :key_in_flight::integer, retry = :retry, secrets = :secrets, state = :state,
    state_reason = :state_reason, state_at = :state_at::timestamptz
where namespace = :namespace and target = :target and name = :name
returning target;

-- name: remove
delete from duly.endpoints where namespace = :namespace and name = :name
returning target;

-- name: schedule_of
-- A schedule that sends to the endpoint, if any.
select name from duly.schedules where target = :target order by name limit 1;

-- name: waiting
-- How many deliveries of each target wait, and how many a worker holds, counted up to the limit.
select t.target, count(*) filter (where a.lane is not null and a.token is null) as waiting,
    count(a.token) as under_way
from unnest(:targets::integer[]) t (target)
left join lateral (
    select lane, token from duly.agenda
    where target in (t.target, -t.target) and priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
      and halted is distinct from 'blocked' limit :limit
) a on true
group by t.target;

-- name: cancel_waiting
-- One batch of deliveries that are neither held nor in a stream's queue.
with gone as (
    delete from duly.agenda a where a.lane = any(array(
        select lane from duly.agenda
        where target in (:target::integer, -:target::integer) and token is null and position is null
          and priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) limit :limit for update skip locked
    )) and a.token is null
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

-- name: waiting_heads
-- Heads of streams that wait for the endpoint.
select d.id::text as id from duly.agenda a join duly.deliveries d on d.id = a.delivery
where a.target = :target and a.token is null and a.position is not null
  and a.priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) and d.state = 'pending'
limit :limit;
