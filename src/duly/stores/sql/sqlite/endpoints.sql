-- name: get
select * from duly.endpoint_list where namespace = :namespace and name = :name;

-- name: some
select * from duly.endpoint_list where namespace = :namespace and name in (select value from json_each(:names));

-- name: page
select * from duly.endpoint_list where namespace = :namespace and name > :after order by name limit :limit;

-- name: lock
-- Locks one endpoint that is about to be changed.
select target from duly.endpoints where namespace = :namespace and name = :name;

-- name: create
insert into duly.endpoints
    (target, namespace, name, url, description, method, headers, timeout, rate, in_flight, key_name,
     key_rate, key_in_flight, retry, secrets, state, state_reason, state_at, created_at)
values (:target, :namespace, :name, :url, :description, :method, :headers,
        :timeout, :rate, :in_flight, :key_name,
        :key_rate, :key_in_flight, :retry, :secrets, :state, :state_reason, :state_at, :now)
returning target;

-- name: change
update duly.endpoints
set version = version + 1, url = :url, description = :description, method = :method,
    headers = :headers, timeout = :timeout, rate = :rate,
    in_flight = :in_flight, key_name = :key_name, key_rate = :key_rate,
    key_in_flight = :key_in_flight, retry = :retry, secrets = :secrets, state = :state,
    state_reason = :state_reason, state_at = :state_at
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
select t.value as target,
    (select count(*) from (
        select 1 from duly.agenda
        where token is null and target in (t.value, -t.value) and priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
          and halted is not 'blocked' limit :limit)) as waiting,
    (select count(*) from (
        select 1 from duly.agenda
        where token is not null and target in (t.value, -t.value) and halted is not 'blocked'
        limit :limit)) as under_way
from json_each(:targets) t;

-- name: cancel_waiting
-- One batch of deliveries that are neither held nor in a stream's queue.
insert into duly.attempts (delivery, attempt, outcome, finished_at)
select id, attempt, 'cancelled', :now from duly.deliveries where number in (
    select delivery from duly.agenda
    where target in (:target, -:target) and token is null and position is null
      and priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
    order by priority, due_at limit :limit);
update duly.deliveries set state = 'cancelled', finished_at = :now where number in (
    select delivery from duly.agenda
    where target in (:target, -:target) and token is null and position is null
      and priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
    order by priority, due_at limit :limit)
returning id;
delete from duly.agenda where delivery in (
    select delivery from duly.agenda
    where target in (:target, -:target) and token is null and position is null
      and priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
    order by priority, due_at limit :limit) and token is null;

-- name: waiting_heads
-- Heads of streams that wait for the endpoint.
select d.id from duly.agenda a join duly.deliveries d on d.number = a.delivery
where a.target = :target and a.token is null and a.position is not null
  and a.priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) and d.state = 'pending'
limit :limit;
