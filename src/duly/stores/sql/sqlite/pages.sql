-- name: matching
-- The conditions of a filter: included in other statements, never run by itself.
d.namespace = :namespace
  and (:state is null or case :state
      when 'processing' then d.state = 'pending' and exists (
          select 1 from duly.agenda a
          where a.lane = coalesce(d.lane, d.number) and a.delivery = d.number and a.token is not null)
      when 'pending' then d.state = 'pending' and not exists (
          select 1 from duly.agenda a
          where a.lane = coalesce(d.lane, d.number) and a.delivery = d.number and a.token is not null)
      else d.state = :state end)
  and (:target is null or d.target = (
      select id from duly.targets where namespace = :namespace and name = :target))
  and (:stream is null or d.stream = :stream)
  and (:in_batch is null or d.batch = :in_batch)
  and (:schedule is null or d.occasion ->> 'schedule' = :schedule)
  and (:tag is null or exists (select 1 from json_each(d.tags) where value = :tag))
  and (:reason is null or d.reason = :reason)
  and (:since is null or d.accepted_at >= :since)
  and (:until is null or d.accepted_at <= :until)
  and (:text is null or instr(d.error, :text) > 0
       or instr(coalesce(d.key, d.unique_key), :text) > 0
       or instr(cast(d.payload as text), :text) > 0)
  and (:late_over is null or (
      -- The last attempt is never before the first, so most rows need no look at the history.
      coalesce(d.started_at, :now) - d.due_at > :late_over * 1000000
      and {first_start} - d.due_at > :late_over * 1000000))

-- name: first_start
-- When its first attempt started; now if it still waits, null if it ended without an attempt.
coalesce(
    (select min(f.started_at) from duly.attempts f where f.delivery = d.id), d.started_at,
    iif(d.state = 'pending', coalesce((
        select h.claimed_at from duly.agenda h
        where h.lane = coalesce(d.lane, d.number) and h.delivery = d.number), :now), null))

-- name: page
-- Deliveries of the ledger, newest first; rows below the floor are not read.
select b.* from (
    select d.id from duly.deliveries d
    where {matching} and d.id < :before and d.id >= :floor
    order by d.id desc limit :limit
) m join duly.booked b on b.id = m.id
order by b.id desc;

-- name: floor
-- The last row that a page searches.
select d.id from duly.deliveries d
where d.id < :before order by d.id desc limit 1 offset :most;

-- name: counts
-- How many deliveries match, by state; rows below the floor are not read.
select case when d.state = 'pending' and exists (
           select 1 from duly.agenda a
           where a.lane = coalesce(d.lane, d.number) and a.delivery = d.number and a.token is not null
       ) then 'processing' else d.state end as state, count(*) as count
from duly.deliveries d
where {matching} and d.id < :before and d.id >= :floor
group by 1;

-- name: members
-- Deliveries of a batch, newest first.
select b.* from (
    select d.id from duly.deliveries d
    where {matching} and d.batch = :in_batch and d.id < :before and d.id >= :floor
    order by d.id desc limit :limit
) m join duly.booked b on b.id = m.id
order by b.id desc;

-- name: members_floor
select d.id from duly.deliveries d
where d.batch = :in_batch and d.id < :before
order by d.id desc limit 1 offset :most;

-- name: member_counts
-- As counts, for the deliveries of a batch.
select case when d.state = 'pending' and exists (
           select 1 from duly.agenda a
           where a.lane = coalesce(d.lane, d.number) and a.delivery = d.number and a.token is not null
       ) then 'processing' else d.state end as state, count(*) as count
from duly.deliveries d
where {matching} and d.batch = :in_batch and d.id < :before and d.id >= :floor
group by 1;

-- name: line
-- Deliveries of a stream, highest position first. Those that have left the queue are sorted in by
-- position; those that have not joined it yet come first.
select b.* from (
    select * from (
        select d.id, d.position as place from duly.deliveries d
        where {matching} and d.lane = {lane} and d.position <= {place}
          and (d.position, d.id) < ({place}, :before)
          and d.position >= :floor and (d.position, d.id) >= (:floor, :stop)
        order by d.position desc limit :limit
    ) i
    union all
    select * from (
        select d.id, {apart_place} as place from duly.deliveries d
        where {matching} and {apart} and {apart_place} <= {place}
          and ({apart_place}, d.id) < ({place}, :before)
          and {apart_place} >= :floor and ({apart_place}, d.id) >= (:floor, :stop)
        order by {apart_place} desc, d.id desc limit :limit
    ) o
    order by place desc, id desc limit :limit
) m join duly.booked b on b.id = m.id
order by m.place desc, m.id desc;

-- name: line_floor
select f.id, f.place from (
    select * from (
        select d.id, d.position as place from duly.deliveries d
        where d.lane = {lane} and d.position <= {place}
          and (d.position, d.id) < ({place}, :before)
        order by d.position desc limit 1 offset :most
    ) i
    union all
    select * from (
        select d.id, {apart_place} as place from duly.deliveries d
        where {apart} and {apart_place} <= {place}
          and ({apart_place}, d.id) < ({place}, :before)
        order by {apart_place} desc, d.id desc limit 1 offset :most
    ) o
) f order by f.place desc, f.id desc limit 1;

-- name: lane
(select lane from duly.streams where namespace = :namespace and name = :stream)

-- name: apart
-- Deliveries of a stream that are not in its queue: they left it, or have not joined it yet.
d.namespace = :namespace and d.stream = :stream and d.stream is not null and d.lane is null

-- name: apart_place
coalesce(d.position, 9223372036854775807)

-- name: place
-- The position of the previous page's last delivery; null, and so an empty page, if the namespace
-- has none with that id.
case when :before = 'ffffffff-ffff-ffff-ffff-ffffffffffff' then 9223372036854775807 else (
    select coalesce(x.position, 9223372036854775807) from duly.deliveries x
    where x.id = :before and x.namespace = :namespace) end

-- name: occurrences
-- Deliveries of a schedule, latest occurrence first.
select b.* from (
    select d.id, d.occurrence from duly.deliveries d
    where {matching} and d.schedule = :number
      and d.occurrence < {occurrence} and d.occurrence >= :floor
    order by d.occurrence desc limit :limit
) m join duly.booked b on b.id = m.id
order by m.occurrence desc;

-- name: occurrences_floor
select d.id, d.occurrence from duly.deliveries d
where d.schedule = :number and d.occurrence < {occurrence}
order by d.occurrence desc limit 1 offset :most;

-- name: numbers
-- The numbers of a schedule: the current one, and those from before it was removed and created
-- again.
select id from duly.schedules where namespace = :namespace and name = :schedule
union all
select number from duly.former_schedules where namespace = :namespace and name = :schedule
order by 1 desc;

-- name: number_of
select schedule from duly.deliveries where id = :before and namespace = :namespace;

-- name: occurrence
case when :before = 'ffffffff-ffff-ffff-ffff-ffffffffffff' then 'zzzz' else (
    select x.occurrence from duly.deliveries x
    where x.id = :before and x.namespace = :namespace) end

-- name: under_way
-- Deliveries that workers hold: their number is limited by the workers' slots, not by the ledger.
select b.* from (
    select d.id from duly.deliveries d
    where {matching} and d.id < :before and d.id in (
        select x.id from duly.agenda a join duly.deliveries x on x.number = a.delivery
        where a.token is not null)
    order by d.id desc limit :limit
) m join duly.booked b on b.id = m.id
order by b.id desc;

-- name: by_key
-- One delivery has a key; a unique key may have many, newest first.
select b.* from (
    select d.id from duly.deliveries d where {matching} and d.key = :key and d.id < :before
    union all
    select * from (
        select d.id from duly.deliveries d
        where {matching} and d.unique_key = :key and d.unique_key is not null and d.id < :before
        order by d.id desc limit :limit
    )
) m join duly.booked b on b.id = m.id
order by b.id desc limit :limit;

-- name: with_key
select k.id from duly.deliveries k where k.namespace = :namespace and k.key = :key
union all
select k.id from duly.deliveries k
where k.namespace = :namespace and k.unique_key = :key and k.unique_key is not null

-- name: lateness_by_key
-- As lateness, of those with a key.
select b.* from (
    select l.id, l.late from (
        select f.id, min(f.first_at, :as_of) - f.due_at as late from (
            select d.id, d.due_at, {first_start} as first_at from duly.deliveries d
            where {matching} and d.id in ({with_key}) and d.id >= :floor and d.due_at <= :as_of
        ) f
    ) l
    where l.late >= 0 and (:late_below is null or (l.late, l.id) < (:late_below, :before))
    order by l.late desc, l.id desc limit :limit
) m join duly.booked b on b.id = m.id
order by m.late desc, m.id desc;

-- name: lateness
-- Deliveries by lateness, most late first. Lateness is as of a moment, so that it does not change from
-- one page to the next. Those that had no attempt and were not due yet have none.
select b.* from (
    select l.id, l.late from (
        select f.id, min(f.first_at, :as_of) - f.due_at as late from (
            select d.id, d.due_at, {first_start} as first_at from duly.deliveries d
            where {matching} and d.id < :ceiling and d.id >= :floor and d.due_at <= :as_of
        ) f
    ) l
    where l.late >= 0 and (:late_below is null or (l.late, l.id) < (:late_below, :before))
    order by l.late desc, l.id desc limit :limit
) m join duly.booked b on b.id = m.id
order by m.late desc, m.id desc;

-- name: late_below
-- The lateness of the previous page's last delivery, in microseconds.
select min({first_start}, :as_of) - d.due_at as late from duly.deliveries d
where d.id = :before and d.namespace = :namespace;

-- name: now
select :now as now_at;
