-- name: limited
-- The limits of handlers, which code declares, and of endpoints.
limited as (
    select l.target, t.namespace, t.name, l.rate, l.in_flight, l.key_name, l.key_rate,
           l.key_in_flight, l.declared_at
    from duly.limits l join duly.targets t on t.id = l.target
    where l.rate is not null or l.in_flight is not null or l.key_name is not null
    union all
    select e.target, e.namespace, 'endpoint:' || e.name, e.rate, e.in_flight, e.key_name, e.key_rate,
           e.key_in_flight, null
    from duly.endpoints e
    where e.rate is not null or e.in_flight is not null or e.key_name is not null
)

-- name: all
with {limited}
select l.*, null as paced_at from limited l
where :served is null or l.namespace in (select value from json_each(:served));

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
       l.key_in_flight, l.declared_at, null as paced_at
from duly.targets t left join duly.limits l on l.target = t.id
where t.name in (select value from json_each(:names))
  and (:served is null or t.namespace in (select value from json_each(:served)));

-- name: declare
-- Runs once for each target.
insert into duly.limits
    (target, rate, in_flight, key_name, key_rate, key_in_flight, declared_at)
values (:target, :rate, :in_flight, :key_name, :key_rate, :key_in_flight, :now)
on conflict (target) do update
set rate = excluded.rate, in_flight = excluded.in_flight, key_name = excluded.key_name,
    key_rate = excluded.key_rate, key_in_flight = excluded.key_in_flight,
    declared_at = excluded.declared_at
where :again;

-- name: use
-- How many deliveries of each target run, and how many are due and wait, the latter up to a limit.
select t.value as target, (
        select count(*) from duly.agenda
        where token is not null and target in (t.value, -t.value)) as in_flight,
       (select count(*) from (
        select 1 from duly.agenda
        where token is null and target in (t.value, -t.value) and priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
          and due_at <= :now limit :most) found) as waiting,
       :now as seen_at
from json_each(:targets) t;
