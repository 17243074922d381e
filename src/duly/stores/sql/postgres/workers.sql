-- name: register
insert into duly.workers
    (namespace, name, version, handlers, concurrency, lease, started_at, beat_at)
values (:namespace, :name, :version, :handlers::text::jsonb, :concurrency, :lease,
        coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
returning id;

-- name: beat
update duly.workers set beat_at = coalesce(:now::timestamptz, now())
where id = :worker and ended_at is null
returning id;

-- name: is_draining
select draining_at is not null from duly.workers where id = :worker;

-- name: drain
update duly.workers
set draining_at = case when :draining::boolean then coalesce(draining_at, coalesce(:now::timestamptz, now())) end
where id = :worker and namespace = :namespace and ended_at is null
returning id;

-- name: bury
-- After a restart of the server everyone alive gets a whole lease to show it: their silence
-- was the server's. What handlers of the dead wrote is undone with their transactions, whose locks
-- would keep others waiting for as long as a stopped process or a lost machine keeps its connection.
with buried as (
    update duly.workers
    set ended_at = coalesce(:now::timestamptz, now()), ended_how = 'died'
    where ended_at is null and id is distinct from :survivor::bigint
      and id is distinct from :worker::bigint
      and (:survivor::bigint is not null
           or greatest(beat_at, case when :now::timestamptz is null then pg_postmaster_start_time() end)
              + lease * interval '1 second' < coalesce(:now::timestamptz, now()))
    returning id
)
select id, (
    select count(pg_terminate_backend(a.pid)) from pg_stat_activity a
    where a.application_name = 'duly worker ' || buried.id and a.datname = current_database()
      and a.usename = current_user and a.xact_start is not null
) as transactions
from buried;

-- name: close_graves
-- A minute's patience: a claim that was under way while its worker was buried may land late.
with closed as (
    update duly.workers w set reclaimed_at = coalesce(:now::timestamptz, now())
    where w.ended_at < coalesce(:now::timestamptz, now()) - interval '60 seconds'
      and w.reclaimed_at is null
      and not exists (
          select from duly.claims c join duly.agenda a on a.lane = any(c.lanes) and a.token = c.token
          where c.token >= w.id * 4294967296 and c.token < (w.id + 1) * 4294967296)
    returning w.id
)
delete from duly.claims c using closed w
where c.token >= w.id * 4294967296 and c.token < (w.id + 1) * 4294967296;

-- name: end
update duly.workers set ended_at = coalesce(:now::timestamptz, now()), ended_how = 'stopped'
where id = :worker and ended_at is null;

-- name: roster
select w.id, w.name, w.namespace, w.started_at, w.beat_at, w.lease, w.concurrency,
       w.handlers::text as handlers, w.version, w.ended_at, w.ended_how, w.draining_at,
       (select count(*) from duly.claims c join duly.agenda a
        on a.lane = any(c.lanes) and a.token = c.token
        where c.token >= w.id * 4294967296 and c.token < (w.id + 1) * 4294967296) as holding,
       w.ended_at is null
           and w.beat_at + w.lease * interval '1 second' >= coalesce(:now::timestamptz, now())
           as alive
from duly.workers w where w.namespace = :namespace
order by w.ended_at is not null, w.id desc limit :limit;
