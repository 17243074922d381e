-- name: keep
insert into duly.traces (delivery, namespace, parent, kept_at)
values (:delivery::uuid, :namespace, :parent, coalesce(:now::timestamptz, now()))
on conflict (delivery) do nothing;

-- name: parent
select parent from duly.traces where delivery = :delivery::uuid;

-- name: prune
delete from duly.traces
where (:served::text[] is null or namespace = any(:served::text[]))
  and kept_at < coalesce(:now::timestamptz, now()) - :kept_for * interval '1 second';
