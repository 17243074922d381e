-- name: register
insert into duly.workers
    (namespace, name, version, handlers, schedules, namespaces, concurrency, lease, generation,
     started_at, beat_at)
values (:namespace, :name, :version, :handlers::text::jsonb, :schedules::text::jsonb,
        :namespaces::text::jsonb, :concurrency, :lease, :generation,
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

-- name: await_aside
-- If two workers call reserve_suspects at once, the second must see the first one's change. The number is
-- arbitrary.
select pg_advisory_xact_lock(7234090105114);

-- name: reserve_suspects
-- One worker at a time among those that serve the same namespace.
update duly.workers as w set aside_at = coalesce(:now::timestamptz, now())
where w.id = :worker and w.ended_at is null and not exists (
    select from duly.workers o
    cross join lateral jsonb_array_elements_text(coalesce(o.namespaces, jsonb_build_array(o.namespace))) theirs(name)
    cross join lateral jsonb_array_elements_text(coalesce(w.namespaces, jsonb_build_array(w.namespace))) ours(name)
    where o.id <> w.id and o.aside_at is not null and o.ended_at is null
      and (theirs.name = ours.name or '*' in (theirs.name, ours.name)))
returning w.id;

-- name: release_suspects
update duly.workers set aside_at = null where id = :worker and aside_at is not null;

-- name: declare_dead
-- After a restart of the server every worker gets a whole lease, since it could not send heartbeats
-- before. The transactions of a dead worker's handlers are ended, which rolls back their writes:
-- their locks would block others for as long as a frozen process or a lost machine keeps its
-- connection.
with dead as (
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
    where a.application_name = 'duly worker ' || dead.id and a.datname = current_database()
      and a.usename = current_user and a.xact_start is not null
) as transactions
from dead;

-- name: finish_dead
-- Only after a minute: a claim that was running when its worker was declared dead may commit late.
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

-- name: doubted
-- Lanes with a crash counted for this worker, locked in the same order as everywhere.
select a.lane::text as lane from duly.attempts t
join duly.deliveries d on d.id = t.delivery
join duly.agenda a on a.lane = coalesce(d.lane, d.id) and a.delivery = d.id
where t.token >= :worker::bigint * 4294967296 and t.token < (:worker::bigint + 1) * 4294967296
  and t.started_at is null and t.outcome in ('reclaimed', 'retry')
order by a.lane for update of a;

-- name: undo_crashes
-- The worker is alive: what it still holds is released, and a crash that was counted for it is
-- subtracted if nothing else has happened to the delivery since. An attempt that the crash used up
-- is restored unless a worker holds the delivery.
with handed as (
    update duly.agenda a set token = null, claimed_at = null
    from duly.claims c
    where c.token >= :worker::bigint * 4294967296 and c.token < (:worker::bigint + 1) * 4294967296
      and a.lane = any(c.lanes) and a.token = c.token
    returning a.delivery, c.token
), noted as (
    insert into duly.attempts (delivery, attempt, outcome, token, finished_at, error)
    select d.id, d.attempt, 'released', h.token, coalesce(:now::timestamptz, now()), :error
    from handed h join duly.deliveries d on d.id = h.delivery
), counted as materialized (
    select t.delivery, t.outcome, t.attempt from duly.attempts t
    where t.token >= :worker::bigint * 4294967296 and t.token < (:worker::bigint + 1) * 4294967296
      and t.started_at is null and t.outcome in ('reclaimed', 'retry')
      and not exists (
          select from duly.attempts l
          where l.delivery = t.delivery and l.finished_at >= t.finished_at
            and (l.started_at is not null or l.outcome = 'retried'))
), cleared as (
    update duly.agenda a
    set crashes = a.crashes - 1,
        priority = case when a.crashes - 1 < :suspect_after::integer then d.priority else a.priority end
    from counted t join duly.deliveries d on d.id = t.delivery
    where a.lane = coalesce(d.lane, d.id) and a.delivery = d.id and a.crashes > 0
    returning a.delivery, a.token
), unspent as (
    update duly.deliveries d set attempt = d.attempt - 1, reason = null, error = null
    from counted t join cleared c on c.delivery = t.delivery
    where d.id = t.delivery and t.outcome = 'retry' and c.token is null
      and d.attempt = t.attempt and d.state = 'pending'
), told as (
    update duly.attempts t
    set outcome = 'released', reason = null, error = :error,
        attempt = case when t.outcome = 'retry' then t.attempt - 1 else t.attempt end
    where t.token >= :worker::bigint * 4294967296 and t.token < (:worker::bigint + 1) * 4294967296
      and t.started_at is null and t.outcome in ('reclaimed', 'retry')
)
select delivery::text as delivery from cleared;

-- name: end
update duly.workers set ended_at = coalesce(:now::timestamptz, now()), ended_how = 'stopped'
where id = :worker and ended_at is null;

-- name: all
select w.id, w.name, w.namespace, w.started_at, w.beat_at, w.lease, w.concurrency,
       w.handlers::text as handlers, coalesce(w.namespaces, jsonb_build_array(w.namespace))::text as namespaces,
       w.version, w.ended_at, w.ended_how, w.draining_at, w.generation,
       (select count(*) from duly.claims c join duly.agenda a
        on a.lane = any(c.lanes) and a.token = c.token
        where c.token >= w.id * 4294967296 and c.token < (w.id + 1) * 4294967296) as holding,
       w.ended_at is null
           and w.beat_at + w.lease * interval '1 second' >= coalesce(:now::timestamptz, now())
           as alive
from duly.workers w
where (w.namespace = :namespace or w.namespaces ? '*' or w.namespaces ? :namespace)
  and w.id = coalesce(:worker::bigint, w.id)
order by w.ended_at is not null, w.id desc limit :limit;
