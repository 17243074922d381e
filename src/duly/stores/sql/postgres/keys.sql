-- name: create
insert into duly.keys (id, namespace, name, scope, hash, created_at, expires_at)
values (:id, :namespace, :name, :scope, :hash, coalesce(:now::timestamptz, now()), :expires_at::timestamptz);

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
update duly.keys set revoked_at = coalesce(:now::timestamptz, now())
where namespace = :namespace and id = :id and revoked_at is null
returning id;

-- name: touch
-- At most once a minute, over all servers.
update duly.keys set last_used_at = coalesce(:now::timestamptz, now())
where id = :id and (last_used_at is null or last_used_at <= :before::timestamptz)
returning id;

-- name: spend
-- The uses are subtracted before the bucket is capped: they were made while it filled, and are
-- reported only now.
update duly.keys
set filled = least(:most::double precision, coalesce(
        filled + extract(epoch from coalesce(:now::timestamptz, now()) - filled_at)::double precision
                 * :rate::double precision, :most::double precision) - :uses::double precision),
    filled_at = coalesce(:now::timestamptz, now())
where id = :id
returning filled;

-- name: any_active
select exists (
    select 1 from duly.keys
    where revoked_at is null and (expires_at is null or expires_at > coalesce(:now::timestamptz, now()))
) as found;

-- name: lock
-- Excludes other callers between the check for a key and its creation.
lock table duly.keys in share row exclusive mode;

-- name: any
select exists (select 1 from duly.keys) as found;
