-- name: note
insert into duly.audit (namespace, done_at, actor, action, subject, detail)
values (:namespace, coalesce(:now::timestamptz, now()), :actor, :action, :subject, :detail::jsonb);

-- name: note_each
insert into duly.audit (namespace, done_at, actor, action, subject)
select :namespace, coalesce(:now::timestamptz, now()), :actor, :action, subject
from unnest(:subject::text[]) as subject;

-- name: page
select id, done_at, actor, action, subject, detail::text as detail from duly.audit
where namespace = :namespace and id < :before order by id desc limit :limit;
