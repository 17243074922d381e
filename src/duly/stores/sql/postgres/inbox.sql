-- name: receive
-- Waits until another transaction that handles the same message has ended.
insert into duly.inbox (namespace, consumer, message_id, received_at)
values (:namespace, :consumer, :message_id, coalesce(:now::timestamptz, now()))
on conflict do nothing
returning message_id;

-- name: first
select result, received_at from duly.inbox
where namespace = :namespace and consumer = :consumer and message_id = :message_id;

-- name: keep
update duly.inbox set result = :result
where namespace = :namespace and consumer = :consumer and message_id = :message_id;

-- name: prune
with old as (
    select ctid as place from duly.inbox
    where namespace = :namespace
      and received_at < coalesce(:now::timestamptz, now()) - :kept_for * interval '1 second'
    order by received_at limit :batch
    for update skip locked
)
delete from duly.inbox where ctid = any(array(select place from old))
returning message_id;
