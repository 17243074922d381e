-- name: add
insert into duly.rollups as r
    (namespace, minute_at, worker,
     accepted, completed, failed, dead, cancelled, on_time, late, reclaimed, lateness_seconds,
     run_seconds)
values (:namespace, date_trunc('minute', coalesce(:now::timestamptz, now())), :worker,
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
select to_timestamp(floor(extract(epoch from minute_at)::double precision / :step) * :step)
           as begins_at,
       sum(accepted)::bigint as accepted, sum(completed)::bigint as completed,
       sum(failed)::bigint as failed, sum(dead)::bigint as dead,
       sum(cancelled)::bigint as cancelled, sum(on_time)::bigint as on_time,
       sum(late)::bigint as late, sum(reclaimed)::bigint as reclaimed,
       sum(lateness_seconds)::double precision as lateness_seconds,
       sum(run_seconds)::double precision as run_seconds
from duly.rollups
where namespace = :namespace and minute_at >= :since_at and minute_at < :until_at
group by 1 order by 1;

-- name: prune
delete from duly.rollups
where (:served::text[] is null or namespace = any(:served::text[]))
  and minute_at < coalesce(:now::timestamptz, now()) - :kept_for * interval '1 second';
