-- name: slice
-- The last id of the slice after the given id.
select max(id::text) as id, count(*) as size from (
    select id from duly.deliveries where id > :after::uuid order by id limit :batch
) s;

-- name: prune
-- The latest occurrence of a schedule stays, or the sweep would create it again; so does a dead
-- letter that blocks its stream, and a member of a batch that is not finished.
with old as (
    select id from duly.deliveries d
    where id > :after::uuid and id <= :until::uuid and (:served::text[] is null or namespace = any(:served::text[]))
      and ((state in ('completed', 'cancelled')
            and finished_at < coalesce(:now::timestamptz, now()) - :completed_for * interval '1 second')
        or (state = 'dead'
            and finished_at < coalesce(:now::timestamptz, now()) - :dead_for * interval '1 second'))
      and not exists (select from duly.progress p where p.schedule = d.schedule and p.made_id = d.id)
      and not exists (select from duly.agenda a where a.lane = d.lane and a.delivery = d.id)
      and (d.batch is null or not exists (
          select from duly.batches b where b.id = d.batch and b.finished_at is null))
    for update skip locked
), {removed};

-- name: removed
-- The end of a statement that removes the deliveries that it has as `old`.
history as (
    delete from duly.attempts where delivery = any(array(select id from old))
), steps as (
    delete from duly.steps where delivery = any(array(select id from old))
), gone as (
    delete from duly.deliveries where id = any(array(select id from old)) and state <> 'pending'
    returning id
)
select id::text as id from gone

-- name: count_prunable
select count(*) as size from duly.deliveries d
where id > :after::uuid and id <= :until::uuid and (:served::text[] is null or namespace = any(:served::text[]))
  and ((state in ('completed', 'cancelled')
        and finished_at < coalesce(:now::timestamptz, now()) - :completed_for * interval '1 second')
    or (state = 'dead'
        and finished_at < coalesce(:now::timestamptz, now()) - :dead_for * interval '1 second'))
  and not exists (select from duly.progress p where p.schedule = d.schedule and p.made_id = d.id)
  and not exists (select from duly.agenda a where a.lane = d.lane and a.delivery = d.id)
  and (d.batch is null or not exists (
      select from duly.batches b where b.id = d.batch and b.finished_at is null));

-- name: prune_workers
delete from duly.workers
where reclaimed_at < coalesce(:now::timestamptz, now()) - :completed_for * interval '1 second';

-- name: slice_streams
-- The last name of the slice after the given name.
select max(name) as name, count(*) as size from (
    select name from duly.streams where namespace = :namespace and name > :after
    order by name limit :batch
) s;

-- name: prune_streams
-- Streams not used for long and without deliveries. A transaction that adds to one meanwhile has
-- locked its row or changed used_at.
with idle as (
    select s.lane from duly.streams s
    where s.namespace = :namespace and s.name > :after and s.name <= :until
      and s.used_at < coalesce(:now::timestamptz, now()) - :completed_for * interval '1 second'
      and s.on_failure is null and s.block_for is null and s.paused_at is null
      and not exists (select from duly.agenda a where a.lane = s.lane)
      and not exists (select from duly.deliveries d where d.lane = s.lane)
    for update skip locked
)
delete from duly.streams where lane = any(array(select lane from idle))
returning name;

-- name: slice_former
-- The last number of the slice after the given number.
select max(number) as number, count(*) as size from (
    select number from duly.former_schedules where number > :after order by number limit :batch
) s;

-- name: prune_former
-- Removed schedules without deliveries.
delete from duly.former_schedules
where (:served::text[] is null or namespace = any(:served::text[])) and number > :after and number <= :until
  and not exists (select from duly.deliveries d where d.schedule = number);

-- name: lay_missing
-- A pending delivery without a lane: it would never be claimed.
with laid as (
    insert into duly.agenda (lane, delivery, target, priority, due_at, schedule, turn)
    select d.id, d.id, case when d.turn is null then d.target else -d.target end, d.priority,
           d.due_at, case when d.occasion::json ->> 'overlap' <> 'allow' then d.schedule end, d.turn
    from duly.deliveries d
    where d.id > :after::uuid and d.id <= :until::uuid and d.state = 'pending' and d.lane is null
      and not exists (select from duly.agenda a where a.lane = d.id)
    on conflict do nothing
    returning lane
)
select lane::text as lane from laid;

-- name: lay_lines
-- A stream with pending deliveries in its queue, but without a lane on the agenda.
with stranded as materialized (
    select distinct d.lane from duly.deliveries d
    where d.id > :after::uuid and d.id <= :until::uuid and d.state = 'pending'
      and d.lane is not null and not exists (select from duly.agenda a where a.lane = d.lane)
), line as materialized (
    select s.lane, s.paused_at from duly.streams s
    where s.lane = any(array(select lane from stranded)) for update skip locked
), laid as (
    insert into duly.agenda
        (lane, delivery, target, priority, due_at, position, halted, halted_at)
    select l.lane, h.id, h.target, h.priority,
           case when l.paused_at is null then least(h.due_at, h.expires_at) else '9999-12-31Z'::timestamptz end,
           h.position, case when l.paused_at is not null then 'paused' end, l.paused_at
    from line l cross join lateral (
        select * from duly.deliveries d where d.lane = l.lane and d.state = 'pending'
        order by d.position limit 1
    ) h
    on conflict do nothing
    returning lane
)
select lane::text as lane from laid;

-- name: recall
-- A pending delivery that its stream has skipped: the stream goes back to it.
update duly.agenda a set replay_from = p.position
from (
    select d.lane, min(d.position) as position from duly.deliveries d
    join duly.agenda a on a.lane = d.lane and d.position < least(a.position, a.replay_from)
    where d.id > :after::uuid and d.id <= :until::uuid and d.state = 'pending'
    group by d.lane
) p
where a.lane = p.lane
returning a.lane::text as lane;

-- name: free_orphans
-- A lane held under the token of a worker that ended long ago or never existed.
with orphan as (
    select a.lane from duly.agenda a
    where a.lane > :after::uuid and a.lane <= :until::uuid and a.token is not null
      and not exists (select from duly.workers w
                      where w.id = a.token / 4294967296 and w.reclaimed_at is null)
    for update skip locked
), freed as (
    update duly.agenda set token = null, claimed_at = null
    where lane = any(array(select lane from orphan)) returning lane
)
select lane::text as lane from freed;

-- name: drop_hollow
-- A lane whose delivery is finished or missing. If it is missing, a worker that holds the lane has
-- nothing to settle.
with hollow as (
    select a.lane from duly.agenda a
    left join lateral (
        select d.state from duly.deliveries d where d.id = a.delivery offset 0
    ) d on true
    where a.lane > :after::uuid and a.lane <= :until::uuid
      and (a.token is null or d.state is null) and d.state is distinct from 'pending'
      and a.position is null
    for update of a skip locked
), dropped as (
    delete from duly.agenda where lane = any(array(select lane from hollow)) returning lane
)
select lane::text as lane from dropped;

-- name: forget_finished
-- Finished deliveries of one target with a tag, however old. An occurrence of a schedule that still
-- exists stays, and so does a dead letter that blocks its stream.
with old as (
    select d.id from duly.deliveries d join duly.targets t on t.id = d.target
    where d.id > :after::uuid and d.id <= :until::uuid and d.namespace = :namespace::text
      and t.name = :target::text
      and d.state <> 'pending' and d.tags @> jsonb_build_array(:tag::text)
      and not exists (select from duly.progress p where p.schedule = d.schedule and p.made_id = d.id)
      and not exists (select from duly.agenda a where a.lane = d.lane and a.delivery = d.id)
      and (d.batch is null or not exists (
          select from duly.batches b where b.id = d.batch and b.finished_at is null))
    for update of d skip locked
), {removed};

-- name: forget_stream
-- A stream without deliveries. A transaction that adds to it meanwhile has locked its row.
with idle as (
    select s.lane from duly.streams s
    where s.namespace = :namespace::text and s.name = :stream::text
      and not exists (select from duly.agenda a where a.lane = s.lane)
      and not exists (select from duly.deliveries d where d.lane = s.lane)
    for update skip locked
)
delete from duly.streams where lane = any(array(select lane from idle))
returning name;

-- name: forget
-- All deliveries of a namespace in the slice, including unfinished ones.
with gone as (
    delete from duly.deliveries
    where id > :after::uuid and id <= :until::uuid and namespace = :namespace
    returning id
), lanes as (
    delete from duly.agenda where lane = any(array(select id from gone))
), history as (
    delete from duly.attempts where delivery = any(array(select id from gone))
), steps as (
    delete from duly.steps where delivery = any(array(select id from gone))
)
select id::text as id from gone;

-- name: forget_names
with workers as (
    delete from duly.workers where namespace = :namespace
), gates as (
    delete from duly.gates
    where target in (select id from duly.targets where namespace = :namespace)
), limits as (
    delete from duly.limits
    where target in (select id from duly.targets where namespace = :namespace)
), endpoints as (
    delete from duly.endpoints where namespace = :namespace
), inbox as (
    delete from duly.inbox where namespace = :namespace
), rollups as (
    delete from duly.rollups where namespace = :namespace
), batches as (
    delete from duly.batches where namespace = :namespace
), alerts as (
    delete from duly.alerts where namespace = :namespace
), traces as (
    delete from duly.traces where namespace = :namespace
), streams as (
    delete from duly.streams where namespace = :namespace returning lane
), lanes as (
    delete from duly.agenda where lane = any(array(select lane from streams))
)
delete from duly.targets where namespace = :namespace;
