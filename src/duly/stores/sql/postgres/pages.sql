-- name: matching
-- The conditions of a filter: included in other statements, never run by itself.
d.namespace = :namespace
  and (:state::text is null or case :state::text
      when 'processing' then d.state = 'pending' and exists (
          select from duly.agenda a
          where a.lane = coalesce(d.lane, d.id) and a.delivery = d.id and a.token is not null)
      when 'pending' then d.state = 'pending' and not exists (
          select from duly.agenda a
          where a.lane = coalesce(d.lane, d.id) and a.delivery = d.id and a.token is not null)
      else d.state = :state::text end)
  and (:target::text is null or d.target = (
      select id from duly.targets where namespace = :namespace and name = :target::text))
  and (:stream::text is null or d.stream = :stream::text)
  and (:in_batch::uuid is null or d.batch = :in_batch::uuid)
  and (:schedule::text is null or d.occasion::json ->> 'schedule' = :schedule::text)
  and (:tag::text is null or d.tags @> jsonb_build_array(:tag::text))
  and (:reason::text is null or d.reason = :reason::text)
  and (:since::timestamptz is null or d.accepted_at >= :since::timestamptz)
  and (:until::timestamptz is null or d.accepted_at <= :until::timestamptz)
  and (:text::text is null or strpos(d.error, :text::text) > 0
       or strpos(coalesce(d.key, d.unique_key), :text::text) > 0
       or strpos(convert_from(d.payload, 'UTF8'), :text::text) > 0)
  and (:late_over::double precision is null or (
      -- The last attempt is never before the first, so most rows need no look at the history.
      coalesce(d.started_at, :now::timestamptz, now()) - d.due_at > :late_over * interval '1 second'
      and {first_start} - d.due_at > :late_over * interval '1 second'))

-- name: first_start
-- When its first attempt started; now if it still waits, null if it ended without an attempt.
coalesce(
    (select min(f.started_at) from duly.attempts f where f.delivery = d.id), d.started_at,
    case when d.state = 'pending' then coalesce((
        select h.claimed_at from duly.agenda h
        where h.lane = coalesce(d.lane, d.id) and h.delivery = d.id),
        :now::timestamptz, now()) end)

-- name: page
-- Deliveries of the ledger, newest first; rows below the floor are not read.
select b.* from (
    select d.id from duly.deliveries d
    where {matching} and d.id < :before::uuid and d.id >= :floor::uuid
    order by d.id desc limit :limit
) m join duly.booked b on b.id = m.id
order by b.id desc;

-- name: floor
-- The last row that a page searches. A table that was never analyzed would be read as a whole if the
-- query planner knew the offset.
select d.id::text as id from duly.deliveries d
where d.id < :before::uuid order by d.id desc offset (select :most::bigint) limit 1;

-- name: counts
-- How many deliveries match, by state; rows below the floor are not read.
-- Few are held, so these are found first, and not by a look at each pending one.
select case when d.state = 'pending' and d.id in ({held}) then 'processing' else d.state end as state,
       count(*) as count
from duly.deliveries d
where {matching} and d.id < :before::uuid and d.id >= :floor::uuid
group by 1;

-- name: held
select a.delivery from duly.claims c
cross join unnest(c.lanes) as held (lane)
join duly.agenda a on a.lane = held.lane and a.token = c.token

-- name: members
-- Deliveries of a batch, newest first.
select b.* from (
    select d.id from duly.deliveries d
    where {matching} and d.batch = :in_batch::uuid and d.id < :before::uuid and d.id >= :floor::uuid
    order by d.id desc limit :limit
) m join duly.booked b on b.id = m.id
order by b.id desc;

-- name: members_floor
select d.id::text as id from duly.deliveries d
where d.batch = :in_batch::uuid and d.id < :before::uuid
order by d.id desc offset :most limit 1;

-- name: member_counts
-- As counts, for the deliveries of a batch.
select case when d.state = 'pending' and d.id in ({held}) then 'processing' else d.state end as state,
       count(*) as count
from duly.deliveries d
where {matching} and d.batch = :in_batch::uuid and d.id < :before::uuid and d.id >= :floor::uuid
group by 1;

-- name: line
-- Deliveries of a stream, highest position first. Those that have left the queue are sorted in by
-- position; those that have not joined it yet come first.
select b.* from (
    select * from (
        select d.id, d.position as place from duly.deliveries d
        where {matching} and d.lane = {lane} and d.position <= {place}
          and (d.position, d.id) < ({place}, :before::uuid)
          and d.position >= :floor::bigint and (d.position, d.id) >= (:floor::bigint, :stop::uuid)
        order by d.position desc limit :limit
    ) i
    union all
    select * from (
        select d.id, {apart_place} as place from duly.deliveries d
        where {matching} and {apart} and {apart_place} <= {place}
          and ({apart_place}, d.id) < ({place}, :before::uuid)
          and {apart_place} >= :floor::bigint and ({apart_place}, d.id) >= (:floor::bigint, :stop::uuid)
        order by {apart_place} desc, d.id desc limit :limit
    ) o
    order by place desc, id desc limit :limit
) m join duly.booked b on b.id = m.id
order by m.place desc, m.id desc;

-- name: line_floor
select f.id::text as id, f.place from (
    select * from (
        select d.id, d.position as place from duly.deliveries d
        where d.lane = {lane} and d.position <= {place}
          and (d.position, d.id) < ({place}, :before::uuid)
        order by d.position desc offset :most limit 1
    ) i
    union all
    select * from (
        select d.id, {apart_place} as place from duly.deliveries d
        where {apart} and {apart_place} <= {place}
          and ({apart_place}, d.id) < ({place}, :before::uuid)
        order by {apart_place} desc, d.id desc offset :most limit 1
    ) o
) f order by f.place desc, f.id desc limit 1;

-- name: lane
(select lane from duly.streams where namespace = :namespace and name = :stream::text)

-- name: apart
-- Deliveries of a stream that are not in its queue: they left it, or have not joined it yet.
d.namespace = :namespace and d.stream = :stream::text and d.stream is not null and d.lane is null

-- name: apart_place
coalesce(d.position, 9223372036854775807)

-- name: place
-- The position of the previous page's last delivery; null, and so an empty page, if the namespace
-- has none with that id.
case when :before::uuid = 'ffffffff-ffff-ffff-ffff-ffffffffffff' then 9223372036854775807 else (
    select coalesce(x.position, 9223372036854775807) from duly.deliveries x
    where x.id = :before::uuid and x.namespace = :namespace) end

-- name: occurrences
-- Deliveries of a schedule, latest occurrence first.
select b.* from (
    select d.id, d.occurrence from duly.deliveries d
    where {matching} and d.schedule = :number
      and d.occurrence < {occurrence} and d.occurrence >= :floor::text
    order by d.occurrence desc limit :limit
) m join duly.booked b on b.id = m.id
order by m.occurrence desc;

-- name: occurrences_floor
select d.id::text as id, d.occurrence from duly.deliveries d
where d.schedule = :number and d.occurrence < {occurrence}
order by d.occurrence desc offset :most limit 1;

-- name: numbers
-- The numbers of a schedule: the current one, and those from before it was removed and created
-- again.
select id from duly.schedules where namespace = :namespace and name = :schedule::text
union all
select number from duly.former_schedules where namespace = :namespace and name = :schedule::text
order by 1 desc;

-- name: number_of
select schedule from duly.deliveries where id = :before::uuid and namespace = :namespace;

-- name: occurrence
case when :before::uuid = 'ffffffff-ffff-ffff-ffff-ffffffffffff' then 'zzzz' else (
    select x.occurrence from duly.deliveries x
    where x.id = :before::uuid and x.namespace = :namespace) end

-- name: under_way
-- Deliveries that workers hold: their number is limited by the workers' slots, not by the ledger.
select b.* from (
    select d.id from duly.deliveries d
    where {matching} and d.id < :before::uuid and d.id in ({held})
    order by d.id desc limit :limit
) m join duly.booked b on b.id = m.id
order by b.id desc;

-- name: by_key
-- One delivery has a key; a unique key may have many, newest first.
select b.* from (
    select d.id from duly.deliveries d
    where {matching} and d.key = :key and d.id < :before::uuid
    union all
    select * from (
        select d.id from duly.deliveries d
        where {matching} and d.unique_key = :key and d.unique_key is not null
          and d.id < :before::uuid
        order by d.id desc limit :limit
    ) u
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
        select f.id, (extract(epoch from least(f.first_at, :as_of::timestamptz) - f.due_at)
                      * 1000000)::bigint as late
        from (
            select d.id, d.due_at, {first_start} as first_at from duly.deliveries d
            where {matching} and d.id = any(array({with_key})) and d.id >= :floor::uuid
              and d.due_at <= :as_of::timestamptz
            offset 0
        ) f
        where f.first_at is not null
    ) l
    where l.late >= 0
      and (:late_below::bigint is null or (l.late, l.id) < (:late_below::bigint, :before::uuid))
    order by l.late desc, l.id desc limit :limit
) m join duly.booked b on b.id = m.id
order by m.late desc, m.id desc;

-- name: lateness
-- Deliveries by lateness, most late first. Lateness is as of a moment, so that it does not change from
-- one page to the next. Those that had no attempt and were not due yet have none.
select b.* from (
    select l.id, l.late from (
        select f.id, (extract(epoch from least(f.first_at, :as_of::timestamptz) - f.due_at)
                      * 1000000)::bigint as late
        from (
            select d.id, d.due_at, {first_start} as first_at from duly.deliveries d
            where {matching} and d.id < :ceiling::uuid and d.id >= :floor::uuid
              and d.due_at <= :as_of::timestamptz
            offset 0
        ) f
        where f.first_at is not null
    ) l
    where l.late >= 0
      and (:late_below::bigint is null or (l.late, l.id) < (:late_below::bigint, :before::uuid))
    order by l.late desc, l.id desc limit :limit
) m join duly.booked b on b.id = m.id
order by m.late desc, m.id desc;

-- name: late_below
-- The lateness of the previous page's last delivery, in microseconds.
select (extract(epoch from least({first_start}, :as_of::timestamptz) - d.due_at)
        * 1000000)::bigint as late
from duly.deliveries d where d.id = :before::uuid and d.namespace = :namespace;

-- name: now
select coalesce(:now::timestamptz, now()) as now_at;
