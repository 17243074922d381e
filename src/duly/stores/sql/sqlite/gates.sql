-- name: lock
-- Runs once for each target.
insert into duly.gates (target) values (:target)
on conflict (target) do nothing;

-- name: seen
-- Only after they are locked: the in-flight counts of other workers must be current.
select g.target, t.name, e.state, coalesce(e.rate, l.rate) as rate,
       coalesce(e.in_flight, l.in_flight) as in_flight, g.failures, g.first_failed_at, g.opened_at,
       g.probe_at, g.probing, g.probes, g.paced_at,
       (select coalesce(sum(f.many), 0) from duly.in_flight f
        join duly.workers w on w.id = f.worker and w.ended_at is null
        where f.target = g.target and f.worker <> :worker) as elsewhere,
       :now as seen_at
from duly.gates g join duly.targets t on t.id = g.target
left join duly.endpoints e on e.target = g.target
left join duly.limits l on l.target = g.target
where g.target in (select value from json_each(:targets));

-- name: write
-- Runs once for each target.
update duly.gates
set failures = :failures, first_failed_at = :first_failed_at, opened_at = :opened_at,
    probe_at = :probe_at, probing = :probing, probes = :probes, paced_at = :paced_at
where target = :target;

-- name: count
-- Runs once for each target.
insert into duly.in_flight (target, worker, many) values (:target, :worker, :many)
on conflict (target, worker) do update set many = excluded.many;

-- name: disable
update duly.endpoints
set state = 'disabled', state_reason = :reason, state_at = :now, version = version + 1
where target = :target and state <> 'disabled'
returning namespace, name;

-- name: forget
-- In-flight counts of workers that have ended.
delete from duly.in_flight
where not exists (
    select 1 from duly.workers w where w.id = duly.in_flight.worker and w.ended_at is null);
