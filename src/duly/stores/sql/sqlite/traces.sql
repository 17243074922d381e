-- name: keep
insert into duly.traces (delivery, namespace, parent, kept_at)
values (:delivery, :namespace, :parent, :now)
on conflict (delivery) do nothing;

-- name: parent
select parent from duly.traces where delivery = :delivery;

-- name: prune
delete from duly.traces
where (:served is null or namespace in (select value from json_each(:served))) and kept_at < :now - cast(:kept_for * 1000000 as integer);
