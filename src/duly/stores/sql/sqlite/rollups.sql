-- name: add
insert into duly.rollups as r
    (namespace, minute_at, worker,
     accepted, completed, failed, dead, cancelled, on_time, late, reclaimed, lateness_seconds,
     run_seconds, lateness, pickup, run)
values (:namespace, :now - :now % 60000000, :worker,
        :accepted, :completed, :failed, :dead, :cancelled, :on_time, :late, :reclaimed,
        :lateness_seconds, :run_seconds, :lateness, :pickup, :run)
on conflict (namespace, minute_at, worker) do update set
    accepted = r.accepted + excluded.accepted,
    completed = r.completed + excluded.completed,
    failed = r.failed + excluded.failed, dead = r.dead + excluded.dead,
    cancelled = r.cancelled + excluded.cancelled,
    on_time = r.on_time + excluded.on_time, late = r.late + excluded.late,
    reclaimed = r.reclaimed + excluded.reclaimed,
    lateness_seconds = r.lateness_seconds + excluded.lateness_seconds,
    run_seconds = r.run_seconds + excluded.run_seconds,
    lateness = (
        select json_group_array(each.value + coalesce(r.lateness ->> each.key, 0))
        from json_each(excluded.lateness) each),
    pickup = (
        select json_group_array(each.value + coalesce(r.pickup ->> each.key, 0))
        from json_each(excluded.pickup) each),
    run = (
        select json_group_array(each.value + coalesce(r.run ->> each.key, 0))
        from json_each(excluded.run) each);

-- name: series
select minute_at / cast(:step * 1000000 as integer) * cast(:step * 1000000 as integer) as begins_at,
       sum(accepted) as accepted, sum(completed) as completed, sum(failed) as failed,
       sum(dead) as dead, sum(cancelled) as cancelled, sum(on_time) as on_time,
       sum(late) as late, sum(reclaimed) as reclaimed, sum(lateness_seconds) as lateness_seconds,
       sum(run_seconds) as run_seconds
from duly.rollups
where namespace = :namespace and minute_at >= :since_at and minute_at < :until_at
group by 1 order by 1;

-- name: times
-- The buckets of each step; rows that older versions wrote have none.
select begins_at, json_group_array(lateness order by bucket) as lateness,
       json_group_array(pickup order by bucket) as pickup,
       json_group_array(run order by bucket) as run
from (
    select r.minute_at / cast(:step * 1000000 as integer) * cast(:step * 1000000 as integer)
               as begins_at, t.key as bucket, sum(t.value) as lateness,
           sum(coalesce(r.pickup ->> t.key, 0)) as pickup,
           sum(coalesce(r.run ->> t.key, 0)) as run
    from duly.rollups r cross join json_each(r.lateness) t
    where r.namespace = :namespace and r.minute_at >= :since_at and r.minute_at < :until_at
    group by 1, 2
) found
group by begins_at order by begins_at;

-- name: prune
delete from duly.rollups
where (:served is null or namespace in (select value from json_each(:served))) and minute_at < :now - cast(:kept_for * 1000000 as integer);

-- name: add_parts
-- All at once: namespace, kind, name, minute_at, completed, failed, dead, cancelled.
insert into duly.part_rollups as r
    (namespace, kind, name, minute_at, worker, completed, failed, dead, cancelled)
select t.value ->> 0, t.value ->> 1, t.value ->> 2, t.value ->> 3, :worker, t.value ->> 4,
       t.value ->> 5, t.value ->> 6, t.value ->> 7
from json_each(:batch) t where true
on conflict (namespace, kind, name, minute_at, worker) do update set
    completed = r.completed + excluded.completed, failed = r.failed + excluded.failed,
    dead = r.dead + excluded.dead, cancelled = r.cancelled + excluded.cancelled;

-- name: part_series
select minute_at / cast(:step * 1000000 as integer) * cast(:step * 1000000 as integer) as begins_at,
       sum(completed) as completed, sum(failed) as failed, sum(dead) as dead,
       sum(cancelled) as cancelled
from duly.part_rollups
where namespace = :namespace and kind = :kind and name = :name
  and minute_at >= :since_at and minute_at < :until_at
group by 1 order by 1;

-- name: prune_parts
delete from duly.part_rollups
where (:served is null or namespace in (select value from json_each(:served))) and minute_at < :now - cast(:kept_for * 1000000 as integer);
