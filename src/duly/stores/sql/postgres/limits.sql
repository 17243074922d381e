-- name: limited
-- The limits of handlers, which code declares, and of endpoints.
limited as (
    select l.target, t.namespace, t.name, l.rate, l.in_flight, l.key_name, l.key_rate,
           l.key_in_flight, l.declared_at
    from duly.limits l join duly.targets t on t.id = l.target
    where l.rate is not null or l.in_flight is not null or l.key_name is not null
    union all
    select e.target, e.namespace, 'endpoint:' || e.name, e.rate, e.in_flight, e.key_name, e.key_rate,
           e.key_in_flight, null::timestamptz
    from duly.endpoints e
    where e.rate is not null or e.in_flight is not null or e.key_name is not null
)

-- name: all
with {limited}
select l.*, null::timestamptz as paced_at from limited l
where :served::text[] is null or l.namespace = any(:served::text[]);

-- name: page
with {limited}
select l.*, g.paced_at from limited l left join duly.gates g on g.target = l.target
where l.namespace = :namespace and l.name > :after order by l.name limit :limit;

-- name: get
with {limited}
select l.*, g.paced_at from limited l left join duly.gates g on g.target = l.target
where l.namespace = :namespace and l.name = :name;

-- name: declared
-- Handlers of the served namespaces, with what was declared for each before.
select t.id as target, t.namespace, t.name, l.rate, l.in_flight, l.key_name, l.key_rate,
       l.key_in_flight, l.declared_at, null::timestamptz as paced_at
from duly.targets t left join duly.limits l on l.target = t.id
where t.name = any(:names::text[])
  and (:served::text[] is null or t.namespace = any(:served::text[]));

-- name: declare
insert into duly.limits
    (target, rate, in_flight, key_name, key_rate, key_in_flight, declared_at)
select o.target, o.rate, o.in_flight, o.key_name, o.key_rate, o.key_in_flight,
       coalesce(:now::timestamptz, now())
from unnest(
    :target::integer[], :rate::double precision[], :in_flight::integer[], :key_name::text[],
    :key_rate::double precision[], :key_in_flight::integer[]
) as o(target, rate, in_flight, key_name, key_rate, key_in_flight)
order by o.target
on conflict (target) do update
set rate = excluded.rate, in_flight = excluded.in_flight, key_name = excluded.key_name,
    key_rate = excluded.key_rate, key_in_flight = excluded.key_in_flight,
    declared_at = excluded.declared_at
where :again::boolean;

-- name: use
-- How many deliveries of each target run, and how many are due and wait, the latter up to a limit.
with held as materialized (
    select abs(a.target) as target, count(*) as many
    from duly.claims c cross join lateral unnest(c.lanes) as l(lane)
    cross join lateral (
        select a.target from duly.agenda a where a.lane = l.lane and a.token = c.token offset 0
    ) a
    where abs(a.target) = any(:targets::integer[]) group by 1
)
select t.target, coalesce(h.many, 0) as in_flight, (select count(*) from (
        select 1 from duly.agenda
        where token is null and target in (t.target, -t.target) and priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
          and due_at <= coalesce(:now::timestamptz, now()) limit :most) found) as waiting,
       coalesce(:now::timestamptz, now()) as seen_at
from unnest(:targets::integer[]) t(target) left join held h on h.target = t.target;
