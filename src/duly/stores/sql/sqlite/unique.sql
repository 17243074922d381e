-- Deliveries with a unique key. SQLite has one writer, so there is nothing to lock: each statement
-- runs once for each row of its batch.

-- name: lock
-- Keys, created if needed, and how their deliveries are. A lane is free, held, or null if there is
-- none; it is shut if it waits for the end of the running one.
insert into duly.unique_keys (target, key) values (:target, :key) on conflict do nothing;
select u.target, u.key, u.waiting,
       case when w.lane is not null then iif(w.token is null, 'free', 'held') end as waiting_lane,
       coalesce(w.due_at >= 253402214400000000, 0) as is_shut, wd.due_at, wd.accepted_at,
       coalesce(wd.replaced_at, wd.accepted_at) as waiting_at, u.running,
       case when r.lane is not null then iif(r.token is null, 'free', 'held') end as running_lane,
       coalesce(rd.replaced_at, rd.accepted_at) as running_at, :now as now_at
from duly.unique_keys u
left join duly.deliveries wd on wd.id = u.waiting
left join duly.agenda w on w.lane = wd.number
left join duly.deliveries rd on rd.id = u.running
left join duly.agenda r on r.lane = rd.number
where u.target = :target and u.key = :key;

-- name: try_lock
select target, key from duly.unique_keys where target = :target and key = :key;

-- name: accept
insert into duly.deliveries
    (id, target, priority, namespace, unique_key, address, due_at, accepted_at, expires_at, tags,
     retry, payload, replaced, replaced_at)
values (:id, :target, :priority, :namespace, :unique_key, :address, :due_at, :now, :expires_at,
        :tags, :retry, :payload, nullif(:times, 0), iif(:times > 0, :now, null));
update duly.agenda set due_at = 253402214400000000
where :is_shut and lane = (select number from duly.deliveries where id = :id);

-- name: replace
-- Gives the delivery that waits the contents of a later one, and if due_at is given its moment. Its
-- attempts were for other contents, so they and its steps do not count any more.
insert into duly.attempts (delivery, attempt, outcome, finished_at)
select id, attempt, 'replaced', :now from duly.deliveries where id = :id and attempt > 0;
delete from duly.steps where delivery = :id;
update duly.deliveries
set payload = :payload, address = :address, priority = :priority, expires_at = :expires_at,
    tags = :tags, retry = :retry, due_at = coalesce(:due_at, due_at), attempt = 0,
    started_at = null, token = null, reason = null, error = null,
    replaced = coalesce(replaced, 0) + :times, replaced_at = :now
where id = :id;
-- One that may have crashed its workers still runs alone.
update duly.agenda
set priority = iif(priority = 0, 0, :priority),
    due_at = iif(due_at >= 253402214400000000, due_at, coalesce(:due_at, due_at))
where lane = (select number from duly.deliveries where id = :id);

-- name: point
update duly.unique_keys set waiting = :waiting, running = :running where {places};

-- name: drop
delete from duly.unique_keys where {places};

-- name: places
target = :target and key = :key

-- name: open
-- The running one has ended: the one that waited for it is due when it is due.
update duly.agenda set due_at = (
    select d.due_at from duly.deliveries d where d.number = duly.agenda.lane)
where token is null and due_at >= 253402214400000000 and lane in (
    select number from duly.deliveries where id in (select value from json_each(:ids)));

-- name: shut
update duly.agenda set due_at = 253402214400000000
where token is null and lane in (
    select number from duly.deliveries where id in (select value from json_each(:ids)));

-- name: supersede
-- Ends deliveries, pending or dead, whose place a later one with the same key has taken.
delete from duly.agenda
where token is null and lane = (select number from duly.deliveries where id = :id);
insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
select id, attempt, iif(state = 'dead', 'discarded', 'superseded'), :now, 'superseded', :note
from duly.deliveries
where id = :id and state in ('pending', 'dead');
update duly.deliveries
set state = 'cancelled', reason = 'superseded', error = :note, dead_at = null, fingerprint = null,
    finished_at = :now
where id = :id and state in ('pending', 'dead');

-- name: same
-- Unique deliveries with these ids: a request that was repeated.
select id, target, unique_key, due_at,
       case when (select a.token from duly.agenda a where a.lane = d.number) is null
            then d.state else 'processing' end as state
from duly.deliveries d where id in (select value from json_each(:ids));

-- name: before
-- The delivery that a waiting one waits for.
select u.running as id from duly.deliveries d
join duly.unique_keys u on u.target = d.target and u.key = d.unique_key and u.waiting = d.id
where d.id = :id and u.running is not null;

-- name: dead
-- The keys of dead letters, those with the latest contents first.
select id, target, unique_key from duly.deliveries
where id in (select value from json_each(:ids)) and unique_key is not null and state = 'dead'
  and disposition is not 'given_up'
order by coalesce(replaced_at, accepted_at) desc, id desc;

-- name: held_under
-- The keys of deliveries that are held under the tokens from one to another.
select distinct d.target, d.unique_key from duly.agenda a
join duly.deliveries d on d.number = a.delivery
where a.token >= :first and a.token <= :last and d.unique_key is not null;

-- name: of_lanes
select distinct target, unique_key from duly.deliveries
where number in (select value from json_each(:lanes)) and unique_key is not null;

-- name: unsettle
insert into duly.unsettled_keys (target, key) values (:target, :key) on conflict do nothing;

-- name: unsettled
select target, key from duly.unsettled_keys limit :limit;

-- name: settled
delete from duly.unsettled_keys where target = :target and key = :key;

-- name: slice
-- A slice of the keys after the given one, each with whether it must be looked at: the delivery that
-- waits has no lane, or it waits for another.
select u.target, u.key, u.running is not null or not exists (
    select 1 from duly.deliveries d join duly.agenda a on a.lane = d.number
    where d.id = u.waiting) as is_doubtful
from duly.unique_keys u
where (u.target, u.key) > (:after_target, :after_key) order by u.target, u.key limit :limit;

-- name: forget
delete from duly.unique_keys
where target in (select id from duly.targets where namespace = :namespace);
