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
-- Whoever knocks says only its token, so it is looked for in every namespace.
select id, namespace, name, scope, created_at, expires_at, last_used_at, revoked_at, hash
from duly.keys where id = :id;

-- name: revoke
-- The first to revoke it says when.
update duly.keys set revoked_at = coalesce(:now::timestamptz, now())
where namespace = :namespace and id = :id and revoked_at is null
returning id;

-- name: touch
-- Not again within the minute, whichever server asks.
update duly.keys set last_used_at = coalesce(:now::timestamptz, now())
where id = :id and (last_used_at is null or last_used_at <= :before::timestamptz)
returning id;

-- name: spend
-- Before the bucket is found full, for those that used it while it filled tell of it only now.
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
-- Whoever looks whether there is a key does so alone, until it has made one.
lock table duly.keys in share row exclusive mode;

-- name: any
select exists (select 1 from duly.keys) as found;
