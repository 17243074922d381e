-- name: receive
insert into duly.inbox (namespace, consumer, message_id, received_at)
values (:namespace, :consumer, :message_id, :now)
on conflict do nothing
returning message_id;

-- name: first
select result, received_at from duly.inbox
where namespace = :namespace and consumer = :consumer and message_id = :message_id;

-- name: keep
update duly.inbox set result = :result
where namespace = :namespace and consumer = :consumer and message_id = :message_id;

-- name: prune
delete from duly.inbox where rowid in (
    select rowid from duly.inbox
    where namespace = :namespace and received_at < :now - :kept_for * 1000000
    order by received_at limit :batch
)
returning message_id;
