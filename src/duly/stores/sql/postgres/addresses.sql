-- name: schedules
select id, address from duly.schedules
where namespace = :namespace and id > :after and position(:mark::text in address) > 0
order by id limit :batch;

-- name: schedules_resealed
update duly.schedules s set address = t.address
from unnest(:id::bigint[], :before::text[], :address::text[]) as t(id, before, address)
where s.id = t.id and s.address = t.before
returning s.id;

-- name: deliveries
-- Those of one slice.
select id::text as id, address from duly.deliveries
where namespace = :namespace and id > :after::uuid and id <= :until::uuid
  and position(:mark::text in address) > 0
order by id;

-- name: deliveries_resealed
-- Locked in order: workers settle in the same order, so there is no deadlock.
with locked as materialized (
    select id from duly.deliveries where id = any(:id::uuid[]) order by id for update
)
update duly.deliveries d set address = t.address
from locked l join unnest(:id::uuid[], :before::text[], :address::text[]) as t(id, before, address)
  on t.id = l.id
where d.id = l.id and d.address = t.before
returning d.id;

-- name: batches
-- Those whose completion is not sent yet.
select b.id::text as id, b.address from duly.batches b
where b.namespace = :namespace and b.id > :after::uuid and b.finished_at is null
  and position(:mark::text in b.address) > 0
order by b.id limit :batch;

-- name: batches_resealed
update duly.batches b set address = t.address
from unnest(:id::uuid[], :before::text[], :address::text[]) as t(id, before, address)
where b.id = t.id and b.address = t.before
returning b.id;
