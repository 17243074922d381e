-- name: note
insert into duly.audit (namespace, done_at, actor, action, subject, detail)
values (:namespace, :now, :actor, :action, :subject, :detail);

-- name: page
select id, done_at, actor, action, subject, detail from duly.audit
where namespace = :namespace and id < :before order by id desc limit :limit;
