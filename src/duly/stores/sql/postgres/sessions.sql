-- name: start
insert into duly.sessions (id, key, hash, created_at, expires_at)
values (:id, :key, :hash, coalesce(:now::timestamptz, now()), :expires_at::timestamptz);

-- name: find
-- The key of a session, as long as both are valid.
select k.id, k.namespace, k.name, k.scope, k.created_at, k.last_used_at, k.revoked_at,
       least(s.expires_at, coalesce(k.expires_at, s.expires_at)) as expires_at, s.hash
from duly.sessions s join duly.keys k on k.id = s.key where s.id = :id;

-- name: end
delete from duly.sessions where id = :id;

-- name: prune
delete from duly.sessions where expires_at <= coalesce(:now::timestamptz, now());
