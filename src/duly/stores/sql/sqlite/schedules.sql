-- name: now
-- The store's time, and the time up to which planners have planned.
select :now as seen_at, (
    select until_at from duly.planned where namespace = :namespace
) as until_at;

-- name: ready
-- A page of schedules due to be planned, all packed into one row (see session.py).
select json_group_array(json_array(
    p.schedule, p.version, p.fired, p.fired_at, p.made, p.made_at, p.made_id, p.next_at, p.runs,
    p.merged, p.skipped, s.name, s.rule, s.catch_up, s.catch_up_window, s.catch_up_cap, s.overlap,
    s.starts_at, s.ends_at, s.max_runs, s.jitter, c.days
)) as "packed: id version fired fired_at made made_at made_id next_at runs merged skipped name rule
       catch_up catch_up_window catch_up_cap overlap starts_at ends_at max_runs jitter
       calendar_days"
from (
    select * from duly.progress p
    where p.namespace = :namespace and p.next_at is not null and p.next_at <= :until_at
      and (p.next_at, p.schedule) > (:after_at, :after)
      and p.schedule not in (select value from json_each(:passed_over))
    order by p.next_at, p.schedule limit :batch
) p join duly.schedules s on s.id = p.schedule
left join duly.calendars c on c.namespace = s.namespace and c.name = s.calendar;

-- name: plan
-- The most frequent plan: one more occurrence, and none missed. It is written only if the schedule
-- has not changed since the page was read. All at once: schedule, version, fired, fired_at, made,
-- made_at, made_id, runs, due_at, occasion, zone, zone_hash, zone_version.
insert into duly.deliveries
    (id, target, address, priority, stream, namespace, schedule, occurrence, occasion, due_at, accepted_at,
     expires_at, tags, retry, payload)
select t.value ->> 6, s.target, s.address, s.priority, s.stream, s.namespace, s.id, t.value ->> 4, t.value ->> 9,
       t.value ->> 8, :now, (t.value ->> 8) + cast(s.expires_after * 1000000 as integer), s.tags,
       s.retry, coalesce(cast(replace(cast(s.payload as text), '"{{delivery.id}}"', '"' || (t.value ->> 6) || '"') as blob), cast(t.value ->> 9 as blob))
from json_each(:batch) t
cross join duly.progress p on p.schedule = t.value ->> 0 and p.version = t.value ->> 1
cross join duly.schedules s on s.id = p.schedule
where t.value ->> 6 is not null
on conflict do nothing;
update duly.progress
set version = version + 1, fired = t.value ->> 2, fired_at = t.value ->> 3, made = t.value ->> 4,
    made_at = t.value ->> 5, made_id = t.value ->> 6, next_at = t.value ->> 5, runs = t.value ->> 7,
    zone = t.value ->> 10, zone_hash = t.value ->> 11, zone_version = t.value ->> 12
from json_each(:batch) t
where schedule = t.value ->> 0 and version = t.value ->> 1;
select changes() as planned;

-- name: due
select p.schedule as id, p.version, p.fired, p.fired_at, p.made, p.made_at, p.made_id, p.next_at,
       p.runs, p.merged, p.skipped
from duly.progress p
where p.namespace = :namespace and p.next_at is not null and p.next_at <= :until_at
  and p.schedule not in (select value from json_each(:passed_over))
order by p.next_at limit :batch;

-- name: timings
-- Read after their progress was locked, which every change of a schedule locks too.
select s.id, s.name, s.rule, s.catch_up, s.catch_up_window, s.catch_up_cap, s.overlap, s.starts_at,
       s.ends_at, s.max_runs, s.jitter, c.days as calendar_days
from duly.schedules s
left join duly.calendars c on c.namespace = s.namespace and c.name = s.calendar
where s.id in (select value from json_each(:ids));

-- name: behind
-- Whether any schedule is due to be planned, locked or not.
select exists (
    select 1 from duly.progress p
    where p.namespace = :namespace and p.next_at is not null and p.next_at <= :until_at
      and p.schedule not in (select value from json_each(:passed_over))
) as behind;

-- name: next
-- When the next schedule is due to be planned.
select p.next_at from duly.progress p
where p.namespace = :namespace and p.next_at is not null
  and p.schedule not in (select value from json_each(:passed_over))
order by p.next_at limit 1;

-- name: next_plans
-- When each namespace has to be planned next: one index probe for each.
with recursive soonest(namespace, next_at) as (
    select * from (
        select namespace, next_at from duly.progress
        where next_at is not null order by namespace, next_at limit 1)
    union all
    select p.namespace, p.next_at from soonest s join duly.progress p on p.schedule = (
        select schedule from duly.progress
        where next_at is not null and namespace > s.namespace
        order by namespace, next_at limit 1)
)
select namespace, next_at, :now as seen_at from soonest
where (:served is null or namespace in (select value from json_each(:served)));

-- name: untouched
-- Runs once for each delivery, and returns it if it is not claimed.
select d.id from duly.deliveries d join duly.agenda a on a.lane = d.number
where d.id = :id and d.attempt = 0 and a.token is null and a.crashes = 0;

-- name: occurrence
-- The delivery of one occurrence.
select id from duly.deliveries where schedule = :schedule and occurrence = :occurrence;

-- name: make
-- All at once: schedule, id, occurrence, due_at, occasion. Contents come from the schedule's row.
-- An occurrence that exists already is not changed; a trigger adds the others to the agenda.
insert into duly.deliveries
    (id, target, address, priority, stream, namespace, schedule, occurrence, occasion, due_at, accepted_at,
     expires_at, tags, retry, payload)
select p.value ->> 1, s.target, s.address, s.priority, s.stream, s.namespace, s.id, p.value ->> 2, p.value ->> 4,
       p.value ->> 3, :now, (p.value ->> 3) + cast(s.expires_after * 1000000 as integer),
       s.tags, s.retry, coalesce(cast(replace(cast(s.payload as text), '"{{delivery.id}}"', '"' || (p.value ->> 1) || '"') as blob), cast(p.value ->> 4 as blob))
from json_each(:batch) p cross join duly.schedules s on s.id = p.value ->> 0 where true
on conflict do nothing;
select changes() as stored;

-- name: move
-- Runs once for each. Changes a delivery that is not claimed, including its contents.
update duly.deliveries as d
set target = s.target, address = s.address, priority = s.priority, stream = s.stream,
    occurrence = :occurrence, occasion = :occasion,
    due_at = :due_at, expires_at = :due_at + cast(s.expires_after * 1000000 as integer),
    tags = s.tags, retry = s.retry, payload = coalesce(cast(replace(cast(s.payload as text), '"{{delivery.id}}"', '"' || :id || '"') as blob), cast(:occasion as blob))
from duly.schedules s
where s.id = :schedule and d.id = :id and d.state = 'pending' and d.attempt = 0
  and exists (select 1 from duly.agenda a where a.lane = d.number and a.token is null)
  and not exists (select 1 from duly.deliveries o
                  where o.schedule = :schedule and o.occurrence = :occurrence and o.id <> :id)
returning id;
update duly.agenda as a
set target = d.target, priority = d.priority, due_at = d.due_at,
    schedule = iif(d.occasion ->> 'overlap' <> 'allow', d.schedule, null)
from duly.deliveries d
where d.id = :id and a.lane = d.number and a.token is null and changes() = 1;

-- name: drop
-- Runs once for each. Removes a delivery that is not claimed; a skipped or cancelled one stays in
-- the ledger.
delete from duly.agenda
where token is null and lane = (select number from duly.deliveries where id = :id)
returning (select id from duly.deliveries where number = delivery) as id;
delete from duly.deliveries where id = :id and :how = 'withdrawn' and changes() = 1;
update duly.deliveries set state = 'cancelled', finished_at = :now, reason = :how
where id = :id and state = 'pending' and :how <> 'withdrawn' and lane is null
  and not exists (select 1 from duly.agenda where lane = number);
insert into duly.attempts (delivery, attempt, outcome, finished_at)
select id, attempt, :how, :now from duly.deliveries
where id = :id and :how <> 'withdrawn' and changes() = 1;

-- name: advance
-- Runs once for each.
update duly.progress
set version = version + 1, fired = :fired, fired_at = :fired_at, made = :made, made_at = :made_at,
    made_id = :made_id,
    next_at = :next_at, runs = :runs, merged = :merged, skipped = :skipped,
    zone = :zone, zone_hash = :zone_hash, zone_version = :zone_version, missed_at = :missed_at
where schedule = :id;

-- name: note_planned
insert into duly.planned (namespace, until_at) values (:namespace, :until_at)
on conflict (namespace) do update set until_at = excluded.until_at
where until_at < excluded.until_at;

-- name: lock
-- Locks one schedule that is about to be changed.
select s.*, p.fired, p.fired_at, p.made, p.made_at, p.made_id, p.next_at, p.runs, p.merged,
       p.skipped, p.zone, p.zone_hash, p.zone_version, p.missed_at, t.name as target_name,
       c.days as calendar_days
from duly.schedules s join duly.progress p on p.schedule = s.id
join duly.targets t on t.id = s.target
left join duly.calendars c on c.namespace = s.namespace and c.name = s.calendar
where s.namespace = :namespace and s.name = :name;

-- name: of_calendar
-- A page of the schedules that use a calendar, which is about to be changed.
select s.*, p.fired, p.fired_at, p.made, p.made_at, p.made_id, p.next_at, p.runs, p.merged,
       p.skipped, p.zone, p.zone_hash, p.zone_version, p.missed_at, t.name as target_name,
       c.days as calendar_days
from duly.schedules s join duly.progress p on p.schedule = s.id
join duly.targets t on t.id = s.target
left join duly.calendars c on c.namespace = s.namespace and c.name = s.calendar
where s.namespace = :namespace and s.calendar = :calendar and s.name > :after
order by s.name limit :limit;

-- name: get
select s.*, p.fired, p.fired_at, p.made, p.made_at, p.made_id, p.next_at, p.runs, p.merged,
       p.skipped, p.zone, p.zone_hash, p.zone_version, p.missed_at, t.name as target_name,
       c.days as calendar_days
from duly.schedules s join duly.progress p on p.schedule = s.id
join duly.targets t on t.id = s.target
left join duly.calendars c on c.namespace = s.namespace and c.name = s.calendar
where s.namespace = :namespace and s.name = :name;

-- name: page
select s.*, p.fired, p.fired_at, p.made, p.made_at, p.made_id, p.next_at, p.runs, p.merged,
       p.skipped, p.zone, p.zone_hash, p.zone_version, p.missed_at, t.name as target_name,
       c.days as calendar_days
from duly.schedules s join duly.progress p on p.schedule = s.id
join duly.targets t on t.id = s.target
left join duly.calendars c on c.namespace = s.namespace and c.name = s.calendar
where s.namespace = :namespace and s.name > :after
  and (:text is null or instr(lower(s.name), lower(:text)) > 0)
  and (:tag is null or exists (select 1 from json_each(s.tags) where value = :tag))
  and (:target is null or t.name = :target)
  and (:state is null or case when s.paused_at is not null then 'paused'
                              when p.next_at is null then 'finished' else 'active' end = :state)
order by s.name limit :limit;

-- name: create
-- Runs once for each. Its progress is written next, as for any change. A schedule whose name is
-- taken is not returned.
insert into duly.schedules
    (namespace, name, rule, catch_up, catch_up_window, catch_up_cap, overlap, starts_at,
     ends_at, max_runs, jitter, calendar, target, address, payload, priority, stream,
     expires_after, retry, tags, paused_at, pause_reason, created_at, updated_at)
values
    (:namespace, :name, :rule, :catch_up, :catch_up_window, :catch_up_cap, :overlap, :starts_at,
     :ends_at, :max_runs, :jitter, :calendar, :target, :address, :payload, :priority, :stream, :expires_after,
     :retry, :tags, :paused_at, :pause_reason,
     :now, :now)
on conflict do nothing;
insert into duly.progress (schedule, namespace, fired_at)
select last_insert_rowid(), :namespace, :now where changes() = 1
returning schedule as id, :name as name;

-- name: change
update duly.schedules
set rule = :rule, catch_up = :catch_up, catch_up_window = :catch_up_window,
    catch_up_cap = :catch_up_cap, overlap = :overlap, starts_at = :starts_at, ends_at = :ends_at,
    max_runs = :max_runs, jitter = :jitter, calendar = :calendar, target = :target, address = :address, payload = :payload,
    priority = :priority, stream = :stream, expires_after = :expires_after, retry = :retry,
    tags = :tags, paused_at = :paused_at, pause_reason = :pause_reason, version = version + 1,
    updated_at = :now
where namespace = :namespace and name = :name
returning id;

-- name: remove
-- Its number is stored with its name, so that its deliveries can still be found by name.
insert into duly.former_schedules (number, namespace, name)
select id, namespace, name from duly.schedules where namespace = :namespace and name = :name;
delete from duly.progress where schedule = (
    select id from duly.schedules where namespace = :namespace and name = :name);
delete from duly.schedules where namespace = :namespace and name = :name;

-- name: unfinished_before
-- How many earlier occurrences of the same schedule are unfinished. Those that wait in its stream,
-- from when its overlap was `queue`, count as one.
select (
    select count(*) from duly.deliveries d
    join duly.agenda a on a.schedule = d.schedule and a.delivery <> d.number
    join duly.deliveries o on o.number = a.delivery
    where d.id = :id and (o.due_at, o.id) < (d.due_at, d.id)
) + (
    select count(*) from duly.streams s join duly.agenda a on a.lane = s.lane
    where s.namespace = :namespace and s.name = :stream
) as earlier;

-- name: unfinished
-- The unfinished deliveries among the latest occurrences, without the next one.
select d.id from (
    select id, state from duly.deliveries
    where schedule = :schedule order by occurrence desc limit 100
) d
where d.state = 'pending' and d.id is not :next;

-- name: zones
-- The versions of time zone data from which schedules were computed.
select zone, zone_hash, max(zone_version) as zone_version from duly.progress
where namespace = :namespace and zone is not null group by zone, zone_hash;

-- name: of_zone
select s.name from duly.progress p join duly.schedules s on s.id = p.schedule
where p.namespace = :namespace and p.zone = :zone and p.zone_hash = :zone_hash and s.name > :after
order by s.name limit :limit;

-- name: without_next
-- In a slice by name, the schedules whose next occurrence has no delivery.
select max(s.name) as last, count(*) as size, json_group_array(s.name) filter (
    where s.made_id is not null and s.next_at > :now
      and not exists (select 1 from duly.deliveries d where d.id = s.made_id)
) as missing
from (
    select s.name, p.made_id, p.next_at
    from duly.schedules s join duly.progress p on p.schedule = s.id
    where s.namespace = :namespace and s.name > :after order by s.name limit :batch
) s;
