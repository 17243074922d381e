-- name: create
insert into duly.keys (id, namespace, name, scope, hash, created_at, expires_at)
values (:id, :namespace, :name, :scope, :hash, :now, :expires_at);

-- name: get
select id, namespace, name, scope, created_at, expires_at, last_used_at, revoked_at
from duly.keys where namespace = :namespace and id = :id;

-- name: page
select id, namespace, name, scope, created_at, expires_at, last_used_at, revoked_at
from duly.keys where namespace = :namespace and id > :after order by id limit :limit;

-- name: find
-- A request contains only the token, so the key is looked up in all namespaces.
select id, namespace, name, scope, created_at, expires_at, last_used_at, revoked_at, hash
from duly.keys where id = :id;

-- name: revoke
-- Revoking again does not change the time.
update duly.keys set revoked_at = :now
where namespace = :namespace and id = :id and revoked_at is null
returning id;

-- name: touch
-- At most once a minute, over all servers.
update duly.keys set last_used_at = :now
where id = :id and (last_used_at is null or last_used_at <= :before)
returning id;

-- name: spend
-- The uses are subtracted before the bucket is capped: they were made while it filled, and are
-- reported only now.
update duly.keys
set filled = min(:most, coalesce(filled + (:now - filled_at) / 1000000.0 * :rate, :most) - :uses),
    filled_at = :now
where id = :id
returning filled;

-- name: any_active
select exists (
    select 1 from duly.keys
    where revoked_at is null and (expires_at is null or expires_at > :now)
) as found;

-- name: lock
-- No lock is needed: one connection writes at a time.
select 1;

-- name: any
select exists (select 1 from duly.keys) as found;
