-- name: slice
-- The last id of the slice that begins after the given one.
select max(id) as id, count(*) as size from (
    select id from duly.deliveries where id > :after order by id limit :batch
) s;

-- name: prune
-- What a schedule still has on its books stays, or the sweep would make it again.
delete from duly.attempts where delivery in (
    select id from duly.deliveries d
    where id > :after and id <= :until and namespace = :namespace
      and ((state in ('completed', 'cancelled')
            and finished_at < :now - cast(:completed_for * 1000000 as integer))
        or (state = 'dead'
            and finished_at < :now - cast(:dead_for * 1000000 as integer)))
      and not exists (select 1 from duly.progress p where p.schedule = d.schedule and p.made_id = d.id));
delete from duly.deliveries as d
where id > :after and id <= :until and namespace = :namespace
  and ((state in ('completed', 'cancelled')
        and finished_at < :now - cast(:completed_for * 1000000 as integer))
    or (state = 'dead'
        and finished_at < :now - cast(:dead_for * 1000000 as integer)))
  and not exists (select 1 from duly.progress p where p.schedule = d.schedule and p.made_id = d.id)
returning id;

-- name: count_prunable
select count(*) as size from duly.deliveries d
where id > :after and id <= :until and namespace = :namespace
  and ((state in ('completed', 'cancelled')
        and finished_at < :now - cast(:completed_for * 1000000 as integer))
    or (state = 'dead'
        and finished_at < :now - cast(:dead_for * 1000000 as integer)))
  and not exists (select 1 from duly.progress p where p.schedule = d.schedule and p.made_id = d.id);

-- name: prune_workers
delete from duly.workers
where reclaimed_at < :now - cast(:completed_for * 1000000 as integer);

-- name: lay_missing
-- A pending delivery that is in no lane: no ordinary path would find it.
insert into duly.agenda (lane, delivery, target, priority, due_at, schedule)
select d.number, d.number, d.target, d.priority, d.due_at,
       iif(d.occasion ->> 'overlap' <> 'allow', d.schedule, null)
from duly.deliveries d
where d.id > :after and d.id <= :until and d.state = 'pending' and d.lane is null
  and not exists (select 1 from duly.agenda a where a.lane = d.number)
on conflict do nothing
returning lane;

-- name: free_orphans
-- A lane held under a token of a worker that is long gone, or never was.
update duly.agenda set token = null, claimed_at = null
where lane in (
    select a.lane from duly.agenda a
    where a.token is not null
      and not exists (select 1 from duly.workers w
                      where w.id = a.token / 4294967296 and w.reclaimed_at is null))
returning lane;

-- name: drop_hollow
-- A lane whose delivery is finished, or gone: then whoever holds it has nothing to settle.
delete from duly.agenda
where position is null
  and (token is null or not exists (select 1 from duly.deliveries d where d.number = delivery))
  and lane >= coalesce((select min(number) from duly.deliveries where id > :after), 0)
  and (:until like 'ffffffff%'
       or lane <= (select max(number) from duly.deliveries where id > :after and id <= :until))
  and not exists (select 1 from duly.deliveries d
                  where d.number = delivery and d.state = 'pending')
returning lane;

-- name: forget
-- Whatever a namespace has in the slice, unfinished work too.
delete from duly.agenda where lane in (
    select number from duly.deliveries
    where id > :after and id <= :until and namespace = :namespace);
delete from duly.attempts where delivery in (
    select id from duly.deliveries
    where id > :after and id <= :until and namespace = :namespace);
delete from duly.deliveries
where id > :after and id <= :until and namespace = :namespace
returning id;

-- name: forget_names
delete from duly.workers where namespace = :namespace;
delete from duly.gates where target in (select id from duly.targets where namespace = :namespace);
delete from duly.endpoints where namespace = :namespace;
delete from duly.targets where namespace = :namespace;
