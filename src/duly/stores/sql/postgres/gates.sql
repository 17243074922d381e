-- name: lock
-- In order of target, so that two workers cannot deadlock.
insert into duly.gates (target) select unnest(:target::integer[])
on conflict (target) do update set target = excluded.target;

-- name: seen
-- Only after they are locked: the in-flight counts of other workers must be current. So must the
-- time, which is not that of the transaction's start: that may be long ago.
select g.target, t.name, e.state, coalesce(e.rate, l.rate) as rate,
       coalesce(e.in_flight, l.in_flight) as in_flight, g.failures, g.first_failed_at, g.opened_at,
       g.probe_at, g.probing, g.probes, g.paced_at,
       (select coalesce(sum(f.many), 0)::integer from duly.in_flight f
        join duly.workers w on w.id = f.worker and w.ended_at is null
        where f.target = g.target and f.worker <> :worker) as elsewhere,
       coalesce(:now::timestamptz, clock_timestamp()) as seen_at
from duly.gates g join duly.targets t on t.id = g.target
left join duly.endpoints e on e.target = g.target
left join duly.limits l on l.target = g.target
where g.target = any(:targets::integer[]);

-- name: write
update duly.gates g
set failures = o.failures, first_failed_at = o.first_failed_at, opened_at = o.opened_at,
    probe_at = o.probe_at, probing = o.probing, probes = o.probes, paced_at = o.paced_at
from unnest(
    :target::integer[], :failures::integer[], :first_failed_at::timestamptz[],
    :opened_at::timestamptz[], :probe_at::timestamptz[], :probing::boolean[], :probes::integer[],
    :paced_at::timestamptz[]
) as o(target, failures, first_failed_at, opened_at, probe_at, probing, probes, paced_at)
where g.target = o.target;

-- name: count
insert into duly.in_flight (target, worker, many)
select o.target, :worker, o.many
from unnest(:target::integer[], :many::integer[]) as o(target, many)
on conflict (target, worker) do update set many = excluded.many;

-- name: disable
update duly.endpoints
set state = 'disabled', state_reason = :reason, state_at = coalesce(:now::timestamptz, now()),
    version = version + 1
where target = :target and state <> 'disabled'
returning namespace, name;

-- name: forget
-- In-flight counts of workers that have ended.
delete from duly.in_flight f
where not exists (select from duly.workers w where w.id = f.worker and w.ended_at is null);
