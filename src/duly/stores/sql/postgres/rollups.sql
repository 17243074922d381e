-- name: add
insert into duly.rollups as r
    (namespace, minute_at, worker,
     accepted, completed, failed, dead, cancelled, on_time, late, reclaimed, lateness_seconds,
     run_seconds, lateness, pickup, run)
values (:namespace, date_trunc('minute', coalesce(:now::timestamptz, now())), :worker,
        :accepted, :completed, :failed, :dead, :cancelled, :on_time, :late, :reclaimed,
        :lateness_seconds, :run_seconds, :lateness::bigint[], :pickup::bigint[], :run::bigint[])
on conflict (namespace, minute_at, worker) do update set
    accepted = r.accepted + excluded.accepted,
    completed = r.completed + excluded.completed,
    failed = r.failed + excluded.failed, dead = r.dead + excluded.dead,
    cancelled = r.cancelled + excluded.cancelled,
    on_time = r.on_time + excluded.on_time, late = r.late + excluded.late,
    reclaimed = r.reclaimed + excluded.reclaimed,
    lateness_seconds = r.lateness_seconds + excluded.lateness_seconds,
    run_seconds = r.run_seconds + excluded.run_seconds,
    lateness = array(
        select coalesce(a, 0) + coalesce(b, 0)
        from unnest(r.lateness, excluded.lateness) with ordinality as t(a, b, bucket) order by bucket),
    pickup = array(
        select coalesce(a, 0) + coalesce(b, 0)
        from unnest(r.pickup, excluded.pickup) with ordinality as t(a, b, bucket) order by bucket),
    run = array(
        select coalesce(a, 0) + coalesce(b, 0)
        from unnest(r.run, excluded.run) with ordinality as t(a, b, bucket) order by bucket);

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

-- name: times
-- The buckets of each step; rows that older versions wrote have none.
select begins_at, json_agg(lateness order by bucket)::text as lateness,
       json_agg(pickup order by bucket)::text as pickup, json_agg(run order by bucket)::text as run
from (
    select to_timestamp(floor(extract(epoch from r.minute_at)::double precision / :step) * :step)
               as begins_at, t.bucket, sum(t.lateness)::bigint as lateness,
           coalesce(sum(t.pickup), 0)::bigint as pickup, coalesce(sum(t.run), 0)::bigint as run
    from duly.rollups r
    cross join unnest(r.lateness, r.pickup, r.run) with ordinality
        as t(lateness, pickup, run, bucket)
    where r.namespace = :namespace and r.minute_at >= :since_at and r.minute_at < :until_at
    group by 1, 2
) found
group by begins_at order by begins_at;

-- name: prune
delete from duly.rollups
where (:served::text[] is null or namespace = any(:served::text[]))
  and minute_at < coalesce(:now::timestamptz, now()) - :kept_for * interval '1 second';

-- name: add_parts
insert into duly.part_rollups as r
    (namespace, kind, name, minute_at, worker, completed, failed, dead, cancelled)
select t.namespace, t.kind, t.name, t.minute_at, :worker, t.completed, t.failed, t.dead,
       t.cancelled
from unnest(
        :namespace::text[], :kind::text[], :name::text[], :minute_at::timestamptz[],
        :completed::bigint[], :failed::bigint[], :dead::bigint[], :cancelled::bigint[]
    ) as t(namespace, kind, name, minute_at, completed, failed, dead, cancelled)
on conflict (namespace, kind, name, minute_at, worker) do update set
    completed = r.completed + excluded.completed, failed = r.failed + excluded.failed,
    dead = r.dead + excluded.dead, cancelled = r.cancelled + excluded.cancelled;

-- name: part_series
select to_timestamp(floor(extract(epoch from minute_at)::double precision / :step) * :step)
           as begins_at,
       sum(completed)::bigint as completed, sum(failed)::bigint as failed, sum(dead)::bigint as dead,
       sum(cancelled)::bigint as cancelled
from duly.part_rollups
where namespace = :namespace and kind = :kind and name = :name
  and minute_at >= :since_at and minute_at < :until_at
group by 1 order by 1;

-- name: prune_parts
delete from duly.part_rollups
where (:served::text[] is null or namespace = any(:served::text[]))
  and minute_at < coalesce(:now::timestamptz, now()) - :kept_for * interval '1 second';
