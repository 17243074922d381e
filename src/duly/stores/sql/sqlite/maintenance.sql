-- name: slice
-- The last id of the slice after the given id.
select max(id) as id, count(*) as size from (
    select id from duly.deliveries where id > :after order by id limit :batch
) s;

-- name: prune
-- The latest occurrence of a schedule stays, or the sweep would create it again; so does a dead
-- letter that blocks its stream, and a member of a batch that is not finished.
delete from duly.attempts where delivery in (
    select id from duly.deliveries d
    where id > :after and id <= :until and (:served is null or namespace in (select value from json_each(:served)))
      and ((state in ('completed', 'cancelled')
            and finished_at < :now - cast(:completed_for * 1000000 as integer))
        or (state = 'dead'
            and finished_at < :now - cast(:dead_for * 1000000 as integer)))
      and not exists (select 1 from duly.progress p where p.schedule = d.schedule and p.made_id = d.id)
      and not exists (select 1 from duly.agenda a where a.lane = d.lane and a.delivery = d.number)
      and (d.batch is null or not exists (
          select 1 from duly.batches b where b.id = d.batch and b.finished_at is null)));
delete from duly.deliveries as d
where id > :after and id <= :until and (:served is null or namespace in (select value from json_each(:served)))
  and ((state in ('completed', 'cancelled')
        and finished_at < :now - cast(:completed_for * 1000000 as integer))
    or (state = 'dead'
        and finished_at < :now - cast(:dead_for * 1000000 as integer)))
  and not exists (select 1 from duly.progress p where p.schedule = d.schedule and p.made_id = d.id)
  and not exists (select 1 from duly.agenda a where a.lane = d.lane and a.delivery = d.number)
  and (d.batch is null or not exists (
      select 1 from duly.batches b where b.id = d.batch and b.finished_at is null))
returning id;
delete from duly.steps where delivery > :after and delivery <= :until
  and not exists (select 1 from duly.deliveries d where d.id = delivery);

-- name: count_prunable
select count(*) as size from duly.deliveries d
where id > :after and id <= :until and (:served is null or namespace in (select value from json_each(:served)))
  and ((state in ('completed', 'cancelled')
        and finished_at < :now - cast(:completed_for * 1000000 as integer))
    or (state = 'dead'
        and finished_at < :now - cast(:dead_for * 1000000 as integer)))
  and not exists (select 1 from duly.progress p where p.schedule = d.schedule and p.made_id = d.id)
  and not exists (select 1 from duly.agenda a where a.lane = d.lane and a.delivery = d.number)
  and (d.batch is null or not exists (
      select 1 from duly.batches b where b.id = d.batch and b.finished_at is null));

-- name: prune_workers
delete from duly.workers
where reclaimed_at < :now - cast(:completed_for * 1000000 as integer);

-- name: slice_streams
-- The last name of the slice after the given name.
select max(name) as name, count(*) as size from (
    select name from duly.streams where namespace = :namespace and name > :after
    order by name limit :batch
) s;

-- name: prune_streams
-- Streams not used for long and without deliveries.
delete from duly.streams as s
where s.namespace = :namespace and s.name > :after and s.name <= :until
  and s.used_at < :now - cast(:completed_for * 1000000 as integer)
  and s.on_failure is null and s.block_for is null and s.paused_at is null
  and not exists (select 1 from duly.agenda a where a.lane = s.lane)
  and not exists (select 1 from duly.deliveries d where d.lane = s.lane)
returning name;

-- name: slice_former
-- The last number of the slice after the given number.
select max(number) as number, count(*) as size from (
    select number from duly.former_schedules where number > :after order by number limit :batch
) s;

-- name: prune_former
-- Removed schedules without deliveries.
delete from duly.former_schedules
where (:served is null or namespace in (select value from json_each(:served))) and number > :after and number <= :until
  and not exists (select 1 from duly.deliveries d where d.schedule = number);

-- name: lay_missing
-- A pending delivery without a lane: it would never be claimed.
insert into duly.agenda (lane, delivery, target, priority, due_at, schedule, turn)
select d.number, d.number, iif(d.turn is null, d.target, -d.target), d.priority, d.due_at,
       iif(d.occasion ->> 'overlap' <> 'allow', d.schedule, null), d.turn
from duly.deliveries d
where d.id > :after and d.id <= :until and d.state = 'pending' and d.lane is null
  and not exists (select 1 from duly.agenda a where a.lane = d.number)
on conflict do nothing
returning lane;

-- name: lay_lines
-- A stream with pending deliveries in its queue, but without a lane on the agenda.
insert into duly.agenda (lane, delivery, target, priority, due_at, position, halted, halted_at)
select s.lane, h.number, h.target, h.priority,
       iif(s.paused_at is null, min(h.due_at, coalesce(h.expires_at, h.due_at)), 253402214400000000),
       h.position,
       iif(s.paused_at is null, null, 'paused'), s.paused_at
from duly.streams s join duly.deliveries h on h.number = (
    select number from duly.deliveries d where d.lane = s.lane and d.state = 'pending'
    order by d.position limit 1)
where s.lane in (
    select d.lane from duly.deliveries d
    where d.id > :after and d.id <= :until and d.state = 'pending' and d.lane is not null
      and not exists (select 1 from duly.agenda a where a.lane = d.lane))
on conflict do nothing
returning lane;

-- name: recall
-- A pending delivery that its stream has skipped: the stream goes back to it.
update duly.agenda as a set replay_from = p.position
from (
    select d.lane, min(d.position) as position from duly.deliveries d
    join duly.agenda a on a.lane = d.lane
     and d.position < min(a.position, coalesce(a.replay_from, a.position))
    where d.id > :after and d.id <= :until and d.state = 'pending'
    group by d.lane
) p
where a.lane = p.lane
returning lane;

-- name: free_orphans
-- A lane held under the token of a worker that ended long ago or never existed.
update duly.agenda set token = null, claimed_at = null
where lane in (
    select a.lane from duly.agenda a
    where a.token is not null
      and not exists (select 1 from duly.workers w
                      where w.id = a.token / 4294967296 and w.reclaimed_at is null))
returning lane;

-- name: drop_hollow
-- A lane whose delivery is finished or missing. If it is missing, a worker that holds the lane has
-- nothing to settle.
delete from duly.agenda
where position is null
  and (token is null or not exists (select 1 from duly.deliveries d where d.number = delivery))
  -- From the number of the previous slice to that of this one: in any order of numbers, all slices
  -- together cover every lane, including lanes whose delivery is missing.
  and lane > coalesce((select number from duly.deliveries where id = :after), 0)
  and lane <= coalesce((select number from duly.deliveries where id = :until), 9223372036854775807)
  and not exists (select 1 from duly.deliveries d
                  where d.number = delivery and d.state = 'pending')
returning lane;

-- name: forget_finished
-- Finished deliveries of one target with a tag, however old. An occurrence of a schedule that still
-- exists stays, and so does a dead letter that blocks its stream.
delete from duly.attempts where delivery in (
    select d.id from duly.deliveries d join duly.targets t on t.id = d.target
    where d.id > :after and d.id <= :until and d.namespace = :namespace and t.name = :target
      and d.state <> 'pending'
      and exists (select 1 from json_each(d.tags) where value = :tag)
      and not exists (select 1 from duly.progress p where p.schedule = d.schedule and p.made_id = d.id)
      and not exists (select 1 from duly.agenda a where a.lane = d.lane and a.delivery = d.number)
      and (d.batch is null or not exists (
          select 1 from duly.batches b where b.id = d.batch and b.finished_at is null)));
delete from duly.deliveries as d
where d.id > :after and d.id <= :until and d.namespace = :namespace
  and d.target in (select id from duly.targets where name = :target)
  and d.state <> 'pending'
  and exists (select 1 from json_each(d.tags) where value = :tag)
  and not exists (select 1 from duly.progress p where p.schedule = d.schedule and p.made_id = d.id)
  and not exists (select 1 from duly.agenda a where a.lane = d.lane and a.delivery = d.number)
  and (d.batch is null or not exists (
      select 1 from duly.batches b where b.id = d.batch and b.finished_at is null))
returning id;
delete from duly.steps where delivery > :after and delivery <= :until
  and not exists (select 1 from duly.deliveries d where d.id = delivery);

-- name: forget_stream
-- A stream without deliveries.
delete from duly.streams as s
where s.namespace = :namespace and s.name = :stream
  and not exists (select 1 from duly.agenda a where a.lane = s.lane)
  and not exists (select 1 from duly.deliveries d where d.lane = s.lane)
returning name;

-- name: forget
-- All deliveries of a namespace in the slice, including unfinished ones.
delete from duly.agenda where lane in (
    select number from duly.deliveries
    where id > :after and id <= :until and namespace = :namespace);
delete from duly.attempts where delivery in (
    select id from duly.deliveries
    where id > :after and id <= :until and namespace = :namespace);
delete from duly.deliveries
where id > :after and id <= :until and namespace = :namespace
returning id;
delete from duly.steps where delivery > :after and delivery <= :until
  and not exists (select 1 from duly.deliveries d where d.id = delivery);

-- name: forget_names
delete from duly.workers where namespace = :namespace;
delete from duly.gates where target in (select id from duly.targets where namespace = :namespace);
delete from duly.limits where target in (select id from duly.targets where namespace = :namespace);
delete from duly.endpoints where namespace = :namespace;
delete from duly.inbox where namespace = :namespace;
delete from duly.rollups where namespace = :namespace;
delete from duly.batches where namespace = :namespace;
delete from duly.alerts where namespace = :namespace;
delete from duly.traces where namespace = :namespace;
delete from duly.agenda where lane in (
    select lane from duly.streams where namespace = :namespace);
delete from duly.streams where namespace = :namespace;
delete from duly.targets where namespace = :namespace;
