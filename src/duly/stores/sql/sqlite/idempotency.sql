-- name: begin
-- A key that has expired but is not removed yet counts as new.
insert into duly.requests as r (namespace, key, fingerprint, seed, begun_at)
values (:namespace, :key, :fingerprint, :seed, :now)
on conflict (namespace, key) do update
set fingerprint = excluded.fingerprint, seed = excluded.seed, begun_at = excluded.begun_at,
    status = null, headers = null, answer = null, shared = false
where r.begun_at < excluded.begun_at - :kept_for * 1000000
returning key;

-- name: find
select fingerprint, seed, status, headers, answer from duly.requests
where namespace = :namespace and key = :key;

-- name: take_over
-- The first server has not responded for too long, or executing the request twice does no harm.
-- From here on two servers may execute it.
update duly.requests set begun_at = :now, shared = true
where namespace = :namespace and key = :key and seed = :seed and status is null
  and (:at_once or begun_at < :now - :patience * 1000000)
returning key;

-- name: finish
update duly.requests set status = :status, headers = :headers, answer = :answer
where namespace = :namespace and key = :key and seed = :seed and status is null;

-- name: abandon
-- Not a request that another server took over and may have executed: without its row it could be
-- executed again.
delete from duly.requests
where namespace = :namespace and key = :key and seed = :seed and status is null
  and not shared;

-- name: prune
delete from duly.requests where rowid in (
    select rowid from duly.requests
    where namespace = :namespace and begun_at < :now - :kept_for * 1000000
    order by begun_at limit :batch
)
returning key;
