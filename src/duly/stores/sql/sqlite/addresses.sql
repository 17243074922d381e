-- name: schedules
select id, address from duly.schedules
where namespace = :namespace and id > :after and instr(address, :mark) > 0
order by id limit :batch;

-- name: schedules_resealed
-- Runs once for each.
update duly.schedules set address = :address where id = :id and address = :before
returning id;

-- name: deliveries
-- Those of one slice.
select id, address from duly.deliveries
where namespace = :namespace and id > :after and id <= :until and instr(address, :mark) > 0
order by id;

-- name: deliveries_resealed
-- Runs once for each.
update duly.deliveries set address = :address where id = :id and address = :before
returning id;

-- name: batches
-- Those whose completion is not sent yet.
select id, address from duly.batches
where namespace = :namespace and id > :after and finished_at is null
  and instr(address, :mark) > 0
order by id limit :batch;

-- name: batches_resealed
-- Runs once for each.
update duly.batches set address = :address where id = :id and address = :before
returning id;
