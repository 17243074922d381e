-- name: raise
-- If the alert is raised already, no row is returned.
insert into duly.alerts (namespace, kind, subject, detail, raised_at, seen_at)
values (:namespace, :kind, :subject, :detail, :now, :now)
on conflict (namespace, kind, subject) where cleared_at is null do nothing
returning id;

-- name: see
update duly.alerts set seen_at = :now, detail = :detail
where namespace = :namespace and kind = :kind and subject = :subject and cleared_at is null;

-- name: clear
update duly.alerts set cleared_at = :now
where id = :id and cleared_at is null
returning id;

-- name: raised
select id, kind, subject, detail, raised_at, seen_at, cleared_at, told as reported from duly.alerts
where namespace = :namespace and cleared_at is null order by id;

-- name: page
select id, kind, subject, detail, raised_at, seen_at, cleared_at, told as reported from duly.alerts
where namespace = :namespace and id < :before order by id desc limit :limit;

-- name: unreported
-- Alerts that were cleared long ago without being reported are left out.
select id, kind, subject, detail, raised_at, seen_at, cleared_at, told as reported from duly.alerts
where namespace = :namespace and told <> 'cleared'
  and (told = 'raised' and cleared_at is not null
    or told = 'nothing' and (cleared_at is null
        or cleared_at >= :now - cast(:fresh_for * 1000000 as integer)))
order by id limit :limit;

-- name: mark_reported
update duly.alerts set told = :reported where id = :id;

-- name: died
-- Of the deliveries that report the newest alerts, those that died since; they are found by their
-- keys.
select count(*) as count
from (
    select id from duly.alerts where namespace = :namespace order by id desc limit :most
) newest cross join (select 'raised' as word union all select 'cleared') w
cross join duly.deliveries d
where d.namespace = :namespace and d.key = :key || newest.id || '.' || w.word
  and d.dead_at >= :since_at;

-- name: prune
delete from duly.alerts
where (:served is null or namespace in (select value from json_each(:served))) and cleared_at < :now - cast(:kept_for * 1000000 as integer);
