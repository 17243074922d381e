-- name: add
insert into duly.rollups as r
    (namespace, minute_at, worker,
     accepted, completed, failed, dead, cancelled, on_time, late, reclaimed, lateness_seconds,
     run_seconds)
values (:namespace, :now - :now % 60000000, :worker,
        :accepted, :completed, :failed, :dead, :cancelled, :on_time, :late, :reclaimed,
        :lateness_seconds, :run_seconds)
on conflict (namespace, minute_at, worker) do update set
    accepted = r.accepted + excluded.accepted,
    completed = r.completed + excluded.completed,
    failed = r.failed + excluded.failed, dead = r.dead + excluded.dead,
    cancelled = r.cancelled + excluded.cancelled,
    on_time = r.on_time + excluded.on_time, late = r.late + excluded.late,
    reclaimed = r.reclaimed + excluded.reclaimed,
    lateness_seconds = r.lateness_seconds + excluded.lateness_seconds,
    run_seconds = r.run_seconds + excluded.run_seconds;

-- name: series
select minute_at / cast(:step * 1000000 as integer) * cast(:step * 1000000 as integer) as begins_at,
       sum(accepted) as accepted, sum(completed) as completed, sum(failed) as failed,
       sum(dead) as dead, sum(cancelled) as cancelled, sum(on_time) as on_time,
       sum(late) as late, sum(reclaimed) as reclaimed, sum(lateness_seconds) as lateness_seconds,
       sum(run_seconds) as run_seconds
from duly.rollups
where namespace = :namespace and minute_at >= :since_at and minute_at < :until_at
group by 1 order by 1;

-- name: prune
delete from duly.rollups
where (:served is null or namespace in (select value from json_each(:served))) and minute_at < :now - cast(:kept_for * 1000000 as integer);
