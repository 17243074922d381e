-- name: register
insert into duly.workers
    (namespace, name, version, handlers, concurrency, lease, started_at, beat_at)
values (:namespace, :name, :version, :handlers, :concurrency, :lease, :now, :now)
returning id;

-- name: beat
update duly.workers set beat_at = :now
where id = :worker and ended_at is null
returning id;

-- name: is_draining
select draining_at is not null from duly.workers where id = :worker;

-- name: drain
update duly.workers
set draining_at = iif(:draining, coalesce(draining_at, :now), null)
where id = :worker and namespace = :namespace and ended_at is null
returning id;

-- name: step_aside
-- One of a namespace at a time; of two that do it at once the index refuses the second.
update duly.workers as w set aside_at = :now
where w.id = :worker and w.ended_at is null and not exists (
    select 1 from duly.workers o
    where o.namespace = w.namespace and o.id <> w.id and o.aside_at is not null
      and o.ended_at is null)
returning id;

-- name: step_in
update duly.workers set aside_at = null where id = :worker and aside_at is not null;

-- name: bury
update duly.workers
set ended_at = :now, ended_how = 'died'
where ended_at is null and id is distinct from :survivor
  and id is distinct from :worker
  and (:survivor is not null or beat_at + cast(lease * 1000000 as integer) < :now)
returning id;

-- name: close_graves
-- A minute's patience: a claim that was under way while its worker was buried may land late.
update duly.workers as w set reclaimed_at = :now
where w.ended_at < :now - 60000000
  and w.reclaimed_at is null
  and not exists (
      select 1 from duly.agenda a
      where a.token >= w.id * 4294967296 and a.token < (w.id + 1) * 4294967296);

-- name: end
update duly.workers set ended_at = :now, ended_how = 'stopped'
where id = :worker and ended_at is null;

-- name: roster
select w.id, w.name, w.namespace, w.started_at, w.beat_at, w.lease, w.concurrency,
       w.handlers, w.version, w.ended_at, w.ended_how, w.draining_at,
       (select count(*) from duly.agenda a
        where a.token >= w.id * 4294967296 and a.token < (w.id + 1) * 4294967296) as holding,
       w.ended_at is null
           and w.beat_at + cast(w.lease * 1000000 as integer) >= :now
           as alive
from duly.workers w where w.namespace = :namespace
order by w.ended_at is not null, w.id desc limit :limit;
