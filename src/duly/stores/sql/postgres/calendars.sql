-- name: get
select name, days, version, created_at, updated_at from duly.calendars
where namespace = :namespace and name = :name;

-- name: page
-- With the number of schedules that use each.
select c.name, c.days, c.version, c.created_at, c.updated_at, (
    select count(*) from duly.schedules s where s.namespace = c.namespace and s.calendar = c.name
) as schedules
from duly.calendars c where c.namespace = :namespace and c.name > :after
order by c.name limit :limit;

-- name: lock
-- Locks one calendar that is about to be changed or removed.
select name, days, version, created_at, updated_at from duly.calendars
where namespace = :namespace and name = :name
for update;

-- name: share
-- The version of a calendar, which stays the same until the end of the transaction.
select version from duly.calendars
where namespace = :namespace and name = :name
for share;

-- name: create
insert into duly.calendars (namespace, name, days, created_at, updated_at)
values (:namespace, :name, :days, coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
on conflict do nothing
returning version;

-- name: change
update duly.calendars set days = :days, version = version + 1, updated_at = coalesce(:now::timestamptz, now())
where namespace = :namespace and name = :name
returning version;

-- name: remove
delete from duly.calendars where namespace = :namespace and name = :name
returning version;

-- name: used_by
-- The first schedules that use a calendar.
select name from duly.schedules where namespace = :namespace and calendar = :name
order by name limit :limit;

-- name: replan
-- Makes planners that have read the old days read them again.
update duly.progress set version = version + 1 where schedule in (
    select id from duly.schedules where namespace = :namespace and calendar = :name);
