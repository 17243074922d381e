-- name: note
insert into duly.audit (namespace, done_at, actor, action, subject, detail)
values (:namespace, :now, :actor, :action, :subject, :detail);

-- name: note_each
-- Runs once for each.
insert into duly.audit (namespace, done_at, actor, action, subject)
values (:namespace, :now, :actor, :action, :subject);

-- name: page
select id, done_at, actor, action, subject, detail from duly.audit
where namespace = :namespace and id < :before order by id desc limit :limit;
