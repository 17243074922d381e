-- name: register
insert into duly.workers
    (namespace, name, version, handlers, schedules, namespaces, concurrency, lease, generation,
     started_at, beat_at)
values (:namespace, :name, :version, :handlers, :schedules, :namespaces, :concurrency, :lease, :generation,
        :now, :now)
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

-- name: await_aside
-- Nothing to lock: nothing else is written meanwhile.
select 1;

-- name: reserve_suspects
-- One worker at a time among those that serve the same namespace.
update duly.workers as w set aside_at = :now
where w.id = :worker and w.ended_at is null and not exists (
    select 1 from duly.workers o
    join json_each(coalesce(o.namespaces, json_array(o.namespace))) theirs
    join json_each(coalesce(w.namespaces, json_array(w.namespace))) ours
    where o.id <> w.id and o.aside_at is not null and o.ended_at is null
      and (theirs.value = ours.value or '*' in (theirs.value, ours.value)))
returning id;

-- name: release_suspects
update duly.workers set aside_at = null where id = :worker and aside_at is not null;

-- name: declare_dead
update duly.workers
set ended_at = :now, ended_how = 'died'
where ended_at is null and id is distinct from :survivor
  and id is distinct from :worker
  and (:survivor is not null or beat_at + cast(lease * 1000000 as integer) < :now)
returning id;

-- name: finish_dead
-- Only after a minute: a claim that was running when its worker was declared dead may commit late.
update duly.workers as w set reclaimed_at = :now
where w.ended_at < :now - 60000000
  and w.reclaimed_at is null
  and not exists (
      select 1 from duly.agenda a
      where a.token >= w.id * 4294967296 and a.token < (w.id + 1) * 4294967296);

-- name: doubted
-- Lanes with a crash counted for this worker; nothing else is written meanwhile.
select a.lane from duly.attempts t
join duly.deliveries d on d.id = t.delivery
join duly.agenda a on a.delivery = d.number
where t.token >= :worker * 4294967296 and t.token < (:worker + 1) * 4294967296
  and t.started_at is null and t.outcome in ('reclaimed', 'retry')
order by a.lane;

-- name: undo_crashes
-- The worker is alive: what it still holds is released, and a crash that was counted for it is
-- subtracted if nothing else has happened to the delivery since. An attempt that the crash used up
-- is restored unless a worker holds the delivery.
insert into duly.attempts (delivery, attempt, outcome, token, finished_at, error)
select d.id, d.attempt, 'released', a.token, :now, :error
from duly.agenda a join duly.deliveries d on d.number = a.delivery
where a.token >= :worker * 4294967296 and a.token < (:worker + 1) * 4294967296;
update duly.agenda set token = null, claimed_at = null
where token >= :worker * 4294967296 and token < (:worker + 1) * 4294967296;
update duly.deliveries as d set attempt = d.attempt - 1, reason = null, error = null
from duly.attempts t join duly.agenda a
where t.token >= :worker * 4294967296 and t.token < (:worker + 1) * 4294967296
  and t.started_at is null and t.outcome = 'retry'
  and d.id = t.delivery and d.attempt = t.attempt and d.state = 'pending'
  and a.delivery = d.number and a.token is null and a.crashes > 0
  and not exists (
      select 1 from duly.attempts l
      where l.delivery = t.delivery and l.finished_at >= t.finished_at
        and (l.started_at is not null or l.outcome = 'retried'));
update duly.agenda as a
set crashes = a.crashes - 1,
    priority = iif(a.crashes - 1 < :suspect_after, d.priority, a.priority)
from duly.attempts t join duly.deliveries d on d.id = t.delivery
where t.token >= :worker * 4294967296 and t.token < (:worker + 1) * 4294967296
  and t.started_at is null and t.outcome in ('reclaimed', 'retry')
  and a.delivery = d.number and a.crashes > 0
  and not exists (
      select 1 from duly.attempts l
      where l.delivery = t.delivery and l.finished_at >= t.finished_at
        and (l.started_at is not null or l.outcome = 'retried'))
returning delivery;
update duly.attempts
set outcome = 'released', reason = null, error = :error,
    attempt = iif(outcome = 'retry', attempt - 1, attempt)
where token >= :worker * 4294967296 and token < (:worker + 1) * 4294967296
  and started_at is null and outcome in ('reclaimed', 'retry');

-- name: end
update duly.workers set ended_at = :now, ended_how = 'stopped'
where id = :worker and ended_at is null;

-- name: all
select w.id, w.name, w.namespace, w.started_at, w.beat_at, w.lease, w.concurrency,
       w.handlers, coalesce(w.namespaces, json_array(w.namespace)) as namespaces, w.version, w.ended_at, w.ended_how, w.draining_at, w.generation,
       (select count(*) from duly.agenda a
        where a.token >= w.id * 4294967296 and a.token < (w.id + 1) * 4294967296) as holding,
       w.ended_at is null
           and w.beat_at + cast(w.lease * 1000000 as integer) >= :now
           as alive
from duly.workers w
where (w.namespace = :namespace
       or exists (select 1 from json_each(w.namespaces) where value in ('*', :namespace)))
  and w.id = coalesce(:worker, w.id)
order by w.ended_at is not null, w.id desc limit :limit;
