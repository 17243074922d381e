-- name: now
-- The store's time, and the time up to which planners have planned.
select coalesce(:now::timestamptz, now()) as seen_at, (
    select until_at from duly.planned where namespace = :namespace
) as until_at;

-- name: ready
-- A page of schedules due to be planned, not locked.
select p.schedule as id, p.version, p.fired, p.fired_at, p.made, p.made_at,
       p.made_id::text as made_id, p.next_at, p.runs, p.merged, p.skipped, s.name, s.rule, s.catch_up, s.catch_up_window,
       s.catch_up_cap, s.overlap, s.starts_at, s.ends_at, s.max_runs, s.jitter, s.calendar_days
from duly.progress p cross join lateral (
    select s.*, c.days as calendar_days from duly.schedules s
    left join duly.calendars c on c.namespace = s.namespace and c.name = s.calendar
    where s.id = p.schedule offset 0
) s
where p.namespace = :namespace and p.next_at is not null and p.next_at <= :until_at
  and (p.next_at, p.schedule) > (:after_at, :after) and p.schedule <> all(:passed_over::bigint[])
order by p.next_at, p.schedule limit :batch;

-- name: plan
-- The most frequent plan: one more occurrence, and none missed. It is written only if the schedule
-- has not changed since the page was read; schedules that another planner has locked are skipped.
with step as materialized (
    select * from unnest(
        :schedule::text::bigint[], :version::text::integer[], :fired::text::text[],
        :fired_at::text::bigint[], :made::text::text[], :made_at::text::bigint[],
        :made_id::text::uuid[], :runs::text::bigint[], :due_at::text::bigint[], :occasion::text[],
        :zone::text::text[], :zone_hash::text::text[], :zone_version::text::text[]
    ) as t(schedule, version, fired, fired_at, made, made_at, made_id, runs, due_at, occasion,
           zone, zone_hash, zone_version)
), held as materialized (
    select t.schedule, t.fired, t.made, t.made_id, t.runs, t.occasion, t.zone, t.zone_hash,
           t.zone_version,
           to_timestamp(t.fired_at / 1e6::float8) as fired_at,
           to_timestamp(t.made_at / 1e6::float8) as made_at,
           to_timestamp(t.due_at / 1e6::float8) as due_at
    from step t cross join lateral (
        select p.schedule from duly.progress p
        where p.schedule = t.schedule and p.version = t.version for update skip locked
    ) p
), stored as (
    insert into duly.deliveries
        (id, target, address, priority, stream, namespace, schedule, occurrence, occasion, due_at,
         accepted_at, expires_at, tags, retry, payload)
    select t.made_id, s.target, s.address, s.priority, s.stream, s.namespace, t.schedule, t.made, t.occasion,
           t.due_at, coalesce(:now::timestamptz, now()), t.due_at + s.expires_after * interval '1 second',
           s.tags, s.retry, coalesce(convert_to(replace(convert_from(s.payload, 'UTF8'), '"{{delivery.id}}"', to_json(t.made_id::text)::text), 'UTF8'), convert_to(t.occasion, 'UTF8'))
    from held t cross join lateral (
        select * from duly.schedules s where s.id = t.schedule offset 0
    ) s
    where t.made_id is not null
    on conflict do nothing
    returning id, target, priority, due_at, schedule, occasion
), laid as (
    insert into duly.agenda (lane, delivery, target, priority, due_at, schedule)
    select id, id, target, priority, due_at,
           case when occasion not like '%"overlap":"allow"%' then schedule end
    from stored
), advanced as (
    update duly.progress p
    set version = p.version + 1, fired = t.fired, fired_at = t.fired_at, made = t.made,
        made_at = t.made_at, made_id = t.made_id, next_at = t.made_at, runs = t.runs,
        zone = t.zone, zone_hash = t.zone_hash, zone_version = t.zone_version
    from held t
    where p.schedule = any(array(select schedule from held)) and p.schedule = t.schedule
)
select count(*) as planned from held;

-- name: due
-- Planners share the work: rows that another planner has locked are skipped.
select p.schedule as id, p.version, p.fired, p.fired_at, p.made, p.made_at,
       p.made_id::text as made_id, p.next_at, p.runs, p.merged, p.skipped
from duly.progress p
where p.namespace = :namespace and p.next_at is not null and p.next_at <= :until_at
  and p.schedule <> all(:passed_over::bigint[])
order by p.next_at limit :batch
for update skip locked;

-- name: timings
-- Read after their progress was locked, which every change of a schedule locks too.
select s.id, s.name, s.rule, s.catch_up, s.catch_up_window, s.catch_up_cap, s.overlap, s.starts_at,
       s.ends_at, s.max_runs, s.jitter, c.days as calendar_days
from duly.schedules s
left join duly.calendars c on c.namespace = s.namespace and c.name = s.calendar
where s.id = any(:ids::bigint[]);

-- name: behind
-- Whether any schedule is due to be planned, locked or not. It selects the first one: with
-- `exists`, PostgreSQL expects many matches and reads the whole table if there is none.
select coalesce((
    select p.next_at from duly.progress p
    where p.namespace = :namespace and p.next_at is not null
      and p.schedule <> all(:passed_over::bigint[])
    order by p.next_at limit 1
) <= :until_at, false) as behind;

-- name: next
-- When the next schedule is due to be planned.
select p.next_at from duly.progress p
where p.namespace = :namespace and p.next_at is not null
  and p.schedule <> all(:passed_over::bigint[])
order by p.next_at limit 1;

-- name: next_plans
-- When each namespace has to be planned next: one index probe for each.
with recursive soonest as (
    (select namespace, next_at from duly.progress
     where next_at is not null order by namespace, next_at limit 1)
    union all
    select p.namespace, p.next_at from soonest s cross join lateral (
        select namespace, next_at from duly.progress
        where next_at is not null and namespace > s.namespace
        order by namespace, next_at limit 1
    ) p
)
select namespace, next_at, coalesce(:now::timestamptz, now()) as seen_at from soonest
where (:served::text[] is null or namespace = any(:served::text[]));

-- name: untouched
-- The deliveries among these that are not claimed; they are locked, so that none can be claimed
-- until the end of the transaction.
select a.lane::text as id from duly.agenda a
where a.lane = any(:id::text::uuid[]) and a.token is null and a.crashes = 0
  and exists (select from duly.deliveries d where d.id = a.delivery and d.attempt = 0 offset 0)
for update skip locked;

-- name: occurrence
-- The delivery of one occurrence.
select id::text as id from duly.deliveries where schedule = :schedule and occurrence = :occurrence;

-- name: make
-- The placeholder in the payload is replaced by the delivery's id. Contents come from the
-- schedule's row. An occurrence that exists already is not changed.
with planned as materialized (
    select * from unnest(
        :schedule::text::bigint[], :id::text::uuid[], :occurrence::text[], :due_at::timestamptz[],
        :occasion::text[]
    ) as t(schedule, id, occurrence, due_at, occasion)
), stored as (
    insert into duly.deliveries
        (id, target, address, priority, stream, namespace, schedule, occurrence, occasion, due_at,
         accepted_at, expires_at, tags, retry, payload)
    select p.id, s.target, s.address, s.priority, s.stream, s.namespace, p.schedule, p.occurrence, p.occasion,
           p.due_at, coalesce(:now::timestamptz, now()),
           p.due_at + s.expires_after * interval '1 second', s.tags, s.retry,
           coalesce(convert_to(replace(convert_from(s.payload, 'UTF8'), '"{{delivery.id}}"', to_json(p.id::text)::text), 'UTF8'), convert_to(p.occasion, 'UTF8'))
    from planned p cross join lateral (
        select * from duly.schedules s where s.id = p.schedule offset 0
    ) s
    on conflict do nothing
    returning id, target, priority, due_at, schedule, occasion
), laid as (
    insert into duly.agenda (lane, delivery, target, priority, due_at, schedule)
    select id, id, target, priority, due_at,
           case when occasion not like '%"overlap":"allow"%' then schedule end
    from stored
)
select count(*) as stored from stored;

-- name: move
-- Changes deliveries that are not claimed, including their contents.
with planned as materialized (
    select * from unnest(
        :schedule::text::bigint[], :id::text::uuid[], :occurrence::text[], :due_at::timestamptz[],
        :occasion::text[]
    ) as t(schedule, id, occurrence, due_at, occasion)
), moved as (
    update duly.deliveries d
    set target = s.target, address = s.address, priority = s.priority, stream = s.stream,
        occurrence = p.occurrence, occasion = p.occasion,
        due_at = p.due_at, expires_at = p.due_at + s.expires_after * interval '1 second',
        tags = s.tags, retry = s.retry, payload = coalesce(convert_to(replace(convert_from(s.payload, 'UTF8'), '"{{delivery.id}}"', to_json(p.id::text)::text), 'UTF8'), convert_to(p.occasion, 'UTF8'))
    from planned p join duly.schedules s on s.id = p.schedule
    where d.id = any(array(select id from planned)) and d.id = p.id
      and d.state = 'pending' and d.attempt = 0
      and not exists (select from duly.deliveries o
                      where o.schedule = p.schedule and o.occurrence = p.occurrence and o.id <> p.id)
    returning d.id, d.target, d.priority, d.due_at, d.schedule, d.occasion
), relaid as (
    update duly.agenda a
    set target = m.target, priority = m.priority, due_at = m.due_at,
        schedule = case when m.occasion::json ->> 'overlap' <> 'allow' then m.schedule end
    from moved m
    where a.lane = any(array(select id from moved)) and a.lane = m.id and a.token is null
)
select id::text as id from moved;

-- name: drop
-- Removes deliveries that are not claimed; skipped and cancelled ones stay in the ledger.
with dropped as materialized (
    select * from unnest(:id::text::uuid[], :how::text[]) as t(id, how)
), gone as (
    delete from duly.agenda where lane = any(array(select id from dropped)) and token is null
    returning lane as id
), withdrawn as (
    delete from duly.deliveries d
    where d.id = any(array(select id from dropped where how = 'withdrawn'))
      and d.id = any(array(select id from gone))
), ended as (
    update duly.deliveries d
    set state = 'cancelled', finished_at = coalesce(:now::timestamptz, now()), reason = o.how
    from dropped o
    where d.id = any(array(select id from dropped where how <> 'withdrawn'))
      and d.id = any(array(select id from gone)) and d.id = o.id
    returning d.id, d.attempt, o.how
), logged as (
    insert into duly.attempts (delivery, attempt, outcome, finished_at)
    select id, attempt, how, coalesce(:now::timestamptz, now()) from ended
)
select id::text as id from gone;

-- name: advance
with step as materialized (
    select * from unnest(
        :id::text::bigint[], :fired::text[], :fired_at::timestamptz[], :made::text[],
        :made_at::timestamptz[], :made_id::uuid[], :next_at::timestamptz[],
        :runs::text::bigint[], :merged::text::bigint[], :skipped::text::bigint[],
        :zone::text[], :zone_hash::text[], :zone_version::text[], :missed_at::timestamptz[]
    ) as t(id, fired, fired_at, made, made_at, made_id, next_at, runs, merged, skipped, zone,
           zone_hash, zone_version, missed_at)
)
update duly.progress p
set version = p.version + 1, fired = t.fired, fired_at = t.fired_at, made = t.made, made_at = t.made_at,
    made_id = t.made_id, next_at = t.next_at, runs = t.runs, merged = t.merged, skipped = t.skipped,
    zone = t.zone, zone_hash = t.zone_hash, zone_version = t.zone_version, missed_at = t.missed_at
from step t
where p.schedule = any(array(select id from step)) and p.schedule = t.id;

-- name: note_planned
insert into duly.planned (namespace, until_at) values (:namespace, :until_at)
on conflict (namespace) do update set until_at = excluded.until_at
where planned.until_at < excluded.until_at;

-- name: lock
-- Locks one schedule that is about to be changed.
select s.*, p.fired, p.fired_at, p.made, p.made_at, p.made_id, p.next_at, p.runs, p.merged,
       p.skipped, p.zone, p.zone_hash, p.zone_version, p.missed_at, t.name as target_name,
       c.days as calendar_days
from duly.schedules s join duly.progress p on p.schedule = s.id
join duly.targets t on t.id = s.target
left join duly.calendars c on c.namespace = s.namespace and c.name = s.calendar
where s.namespace = :namespace and s.name = :name
for update of s, p;

-- name: of_calendar
-- A page of the schedules that use a calendar, which is about to be changed.
select s.*, p.fired, p.fired_at, p.made, p.made_at, p.made_id, p.next_at, p.runs, p.merged,
       p.skipped, p.zone, p.zone_hash, p.zone_version, p.missed_at, t.name as target_name,
       c.days as calendar_days
from duly.schedules s join duly.progress p on p.schedule = s.id
join duly.targets t on t.id = s.target
left join duly.calendars c on c.namespace = s.namespace and c.name = s.calendar
where s.namespace = :namespace and s.calendar = :calendar and s.name > :after
order by s.name limit :limit
for update of s, p;

-- name: get
select s.*, p.fired, p.fired_at, p.made, p.made_at, p.made_id, p.next_at, p.runs, p.merged,
       p.skipped, p.zone, p.zone_hash, p.zone_version, p.missed_at, t.name as target_name,
       c.days as calendar_days
from duly.schedules s join duly.progress p on p.schedule = s.id
join duly.targets t on t.id = s.target
left join duly.calendars c on c.namespace = s.namespace and c.name = s.calendar
where s.namespace = :namespace and s.name = :name;

-- name: page
select s.*, p.fired, p.fired_at, p.made, p.made_at, p.made_id, p.next_at, p.runs, p.merged,
       p.skipped, p.zone, p.zone_hash, p.zone_version, p.missed_at, t.name as target_name,
       c.days as calendar_days
from duly.schedules s join duly.progress p on p.schedule = s.id
join duly.targets t on t.id = s.target
left join duly.calendars c on c.namespace = s.namespace and c.name = s.calendar
where s.namespace = :namespace and s.name > :after
  and (:text::text is null or position(lower(:text::text) in lower(s.name)) > 0)
  and (:tag::text is null or s.tags @> jsonb_build_array(:tag::text))
  and (:target::text is null or t.name = :target::text)
  and (:state::text is null or case when s.paused_at is not null then 'paused'
                                    when p.next_at is null then 'finished' else 'active' end = :state)
order by s.name limit :limit;

-- name: create
-- Their progress is written next, as for any change. Schedules whose names are taken are not
-- returned.
with new as materialized (
    select * from unnest(
        :name::text[], :rule::text[], :catch_up::text[], :catch_up_window::double precision[],
        :catch_up_cap::integer[], :overlap::text[], :starts_at::timestamptz[],
        :ends_at::timestamptz[], :max_runs::integer[], :jitter::double precision[],
        :calendar::text[], :target::integer[], :address::text[], :payload::bytea[], :priority::integer[],
        :stream::text[], :expires_after::double precision[], :retry::text[], :tags::text[],
        :paused_at::timestamptz[], :pause_reason::text[]
    ) as t(name, rule, catch_up, catch_up_window, catch_up_cap, overlap, starts_at, ends_at,
           max_runs, jitter, calendar, target, address, payload, priority, stream, expires_after,
           retry, tags, paused_at, pause_reason)
), created as (
    insert into duly.schedules
        (namespace, name, rule, catch_up, catch_up_window, catch_up_cap, overlap, starts_at,
         ends_at, max_runs, jitter, calendar, target, address, payload, priority, stream,
         expires_after, retry, tags, paused_at, pause_reason, created_at, updated_at)
    select :namespace, name, rule, catch_up, catch_up_window, catch_up_cap, overlap, starts_at,
           ends_at, max_runs, jitter, calendar, target, address, payload, priority, stream,
           expires_after, retry, tags::jsonb, paused_at, pause_reason,
           coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
    from new
    on conflict (namespace, name) do nothing
    returning id, name
), begun as (
    insert into duly.progress (schedule, namespace, fired_at)
    select id, :namespace, coalesce(:now::timestamptz, now()) from created
)
select id, name from created;

-- name: change
update duly.schedules
set rule = :rule, catch_up = :catch_up, catch_up_window = :catch_up_window,
    catch_up_cap = :catch_up_cap, overlap = :overlap, starts_at = :starts_at, ends_at = :ends_at,
    max_runs = :max_runs, jitter = :jitter, calendar = :calendar, target = :target, address = :address, payload = :payload,
    priority = :priority, stream = :stream, expires_after = :expires_after, retry = :retry,
    tags = :tags::jsonb, paused_at = :paused_at, pause_reason = :pause_reason, version = version + 1,
    updated_at = coalesce(:now::timestamptz, now())
where namespace = :namespace and name = :name
returning id;

-- name: remove
-- Its number is stored with its name, so that its deliveries can still be found by name.
with gone as (
    delete from duly.schedules where namespace = :namespace and name = :name returning id
), kept as (
    insert into duly.former_schedules (number, namespace, name)
    select id, :namespace, :name from gone
)
delete from duly.progress where schedule = any(array(select id from gone));

-- name: unfinished_before
-- How many earlier occurrences of the same schedule are unfinished. Those that wait in its stream,
-- from when its overlap was `queue`, count as one.
select (
    select count(*) from duly.deliveries d
    join duly.agenda a on a.schedule = d.schedule and a.delivery <> d.id
    join duly.deliveries o on o.id = a.delivery
    where d.id = :id::uuid and (o.due_at, o.id) < (d.due_at, d.id)
) + (
    select count(*) from duly.streams s join duly.agenda a on a.lane = s.lane
    where s.namespace = :namespace and s.name = :stream
) as earlier;

-- name: unfinished
-- The unfinished deliveries among the latest occurrences, without the next one.
select d.id::text as id from (
    select id, state from duly.deliveries
    where schedule = :schedule order by occurrence desc limit 100
) d
where d.state = 'pending' and d.id is distinct from :next::uuid;

-- name: zones
-- The versions of time zone data from which schedules were computed.
select zone, zone_hash, max(zone_version) as zone_version from duly.progress
where namespace = :namespace and zone is not null group by zone, zone_hash;

-- name: of_zone
select s.name from duly.progress p join duly.schedules s on s.id = p.schedule
where p.namespace = :namespace and p.zone = :zone and p.zone_hash = :zone_hash and s.name > :after
order by s.name limit :limit;

-- name: without_next
-- In a slice by name, the schedules whose next occurrence has no delivery.
select max(s.name) as last, count(*) as size, coalesce(json_agg(s.name) filter (
    where s.made_id is not null and s.next_at > coalesce(:now::timestamptz, now())
      and not exists (select from duly.deliveries d where d.id = s.made_id)
), '[]')::text as missing
from (
    select s.name, p.made_id, p.next_at
    from duly.schedules s join duly.progress p on p.schedule = s.id
    where s.namespace = :namespace and s.name > :after order by s.name limit :batch
) s;
