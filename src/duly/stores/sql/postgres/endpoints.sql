-- name: get
select * from duly.endpoint_list where namespace = :namespace and name = :name;

-- name: some
select * from duly.endpoint_list where namespace = :namespace and name = any(:names::text[]);

-- name: page
select * from duly.endpoint_list where namespace = :namespace and name > :after order by name limit :limit;

-- name: lock
-- One endpoint, for somebody who changes it.
select target from duly.endpoints where namespace = :namespace and name = :name
for update;

-- name: create
insert into duly.endpoints
    (target, namespace, name, url, description, method, headers, timeout, rate, in_flight, retry,
     secrets, state, state_reason, state_at, created_at)
values (:target, :namespace, :name, :url, :description, :method, :headers,
        :timeout::double precision, :rate::double precision, :in_flight::integer, :retry,
        :secrets, :state, :state_reason, :state_at::timestamptz, coalesce(:now::timestamptz, now()))
returning target;

-- name: change
update duly.endpoints
set version = version + 1, url = :url, description = :description, method = :method,
    headers = :headers, timeout = :timeout::double precision, rate = :rate::double precision,
    in_flight = :in_flight::integer, retry = :retry, secrets = :secrets, state = :state,
    state_reason = :state_reason, state_at = :state_at::timestamptz
where namespace = :namespace and target = :target and name = :name
returning target;

-- name: remove
delete from duly.endpoints where namespace = :namespace and name = :name
returning target;

-- name: schedule_of
-- A schedule that still sends there, if there is one.
select name from duly.schedules where target = :target order by name limit 1;

-- name: waiting
-- How many wait, and how many of them are held by a worker; counted up to the limit.
select count(*) as waiting, count(a.token) as held from (
    select token from duly.agenda
    where target = :target and priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
      and halted is distinct from 'blocked' limit :limit
) a;

-- name: cancel_waiting
-- One batch of what nobody holds, but for those who stand in the line of a stream.
with gone as (
    delete from duly.agenda a where a.lane = any(array(
        select lane from duly.agenda
        where target = :target and token is null and position is null
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
-- Heads of streams that wait for it.
select d.id::text as id from duly.agenda a join duly.deliveries d on d.id = a.delivery
where a.target = :target and a.token is null and a.position is not null
  and a.priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) and d.state = 'pending'
limit :limit;

-- name: count_dead
select count(*) as dead from duly.deliveries
where dead_at >= :since::timestamptz and namespace = :namespace and target = :target;

-- name: recover
-- A batch of dead letters, the oldest first, each with all its attempts again. They are due one
-- after the other. Those with a place in a stream go back there instead.
with raised as (
    update duly.deliveries d
    set state = 'pending', attempt = 0, dead_at = null, finished_at = null
    where d.id = any(array(
        select id from duly.deliveries
        where dead_at >= :since::timestamptz and dead_at <= :until::timestamptz and namespace = :namespace and target = :target
          and position is null
        order by dead_at, id limit :limit for update skip locked
    )) and d.state = 'dead'
    returning d.id, d.target, d.priority, d.schedule, d.occasion
), placed as (
    select *, row_number() over (order by id) - 1 as place from raised
), laid as (
    insert into duly.agenda (lane, delivery, target, priority, due_at, schedule)
    select id, id, target, priority,
           coalesce(:now::timestamptz, now()) + place * :spread::double precision * interval '1 second',
           case when occasion::json ->> 'overlap' <> 'allow' then schedule end
    from placed
    returning lane
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at)
    select lane, 0, 'retried', coalesce(:now::timestamptz, now()) from laid
)
select lane::text as id from laid;

-- name: dead_members
-- Dead letters with a place in a stream, the oldest first.
select id::text as id from duly.deliveries
where dead_at >= :since::timestamptz and dead_at <= :until::timestamptz
  and namespace = :namespace and target = :target and position is not null
order by dead_at, position limit :limit;
