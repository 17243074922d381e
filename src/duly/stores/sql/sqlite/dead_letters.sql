-- name: matching
-- The conditions of a filter: included in other statements, never run by itself. A dead letter that
-- was retried since `until` and died again does not match, even if its worker's clock was behind.
d.namespace = :namespace
  and d.dead_at >= :since and d.dead_at <= coalesce(:until, 253402214400000000)
  and (:ids is null or d.id in (select value from json_each(:ids)))
  and (:fingerprint is null or coalesce(d.fingerprint, 'unknown') = :fingerprint)
  and (:reason is null or d.reason = :reason)
  and (:target is null or d.target = (
      select id from duly.targets where namespace = :namespace and name = :target))
  and (:stream is null or d.stream = :stream)
  and (:schedule is null or d.occasion ->> 'schedule' = :schedule)
  and (:tag is null or exists (select 1 from json_each(d.tags) where value = :tag))
  and (:text is null or instr(d.error, :text) > 0
       or instr(coalesce(d.key, d.unique_key), :text) > 0
       or instr(cast(d.payload as text), :text) > 0)
  and (:disposition is null or d.disposition = :disposition
       or :disposition = 'open' and coalesce(d.disposition, 'left') in ('left', 'recovering'))
  and (:until is null or not exists (
      select 1 from duly.attempts t
      where t.delivery = d.id and t.outcome = 'retried' and t.finished_at >= :until))

-- name: page
select b.* from (
    select d.id from duly.deliveries d
    where {matching} and (d.dead_at, d.id) < (:before_at, :before)
    order by d.dead_at desc, d.id desc limit :limit
) m join duly.booked b on b.id = m.id
order by b.dead_at desc, b.id desc;

-- name: floor
-- The dead_at of the last row that a page searches.
select d.dead_at from duly.deliveries d
where d.namespace = :namespace and d.dead_at is not null
  and (d.dead_at, d.id) < (:before_at, :before)
order by d.dead_at desc, d.id desc limit 1 offset :most;

-- name: count
select count(*) as many from duly.deliveries d where {matching};

-- name: known
-- The conditions that the index of groups can check: included in other statements, like the next
-- two.
d.namespace = :namespace and d.dead_at >= :since
  and (:fingerprint is null or coalesce(d.fingerprint, 'unknown') = :fingerprint)
  and (:reason is null or d.reason = :reason)
  and (:target is null or d.target = (
      select id from duly.targets where namespace = :namespace and name = :target))

-- name: alike
select d.fingerprint, d.reason, d.target, count(*) as many,
       min(d.dead_at) as first_at, max(d.dead_at) as last_at
from duly.deliveries d

-- name: grouped
-- The example is the newest dead letter of the group.
select g.fingerprint, g.reason, g.many, g.first_at, g.last_at, g.targets, (
    select x.error from duly.deliveries x
    where x.namespace = :namespace and x.dead_at = g.last_at
      and coalesce(x.fingerprint, 'unknown') = g.fingerprint and x.reason is g.reason
    limit 1
) as error
from (
    select coalesce(s.fingerprint, 'unknown') as fingerprint, s.reason, sum(s.many) as many,
           min(s.first_at) as first_at, max(s.last_at) as last_at,
           json_group_array(distinct t.name) as targets
    from s join duly.targets t on t.id = s.target group by 1, 2
) g
order by g.many desc, g.last_at desc limit :limit

-- name: groups
with s as ({alike} where {known} group by 1, 2, 3) {grouped};

-- name: groups_among
-- The same for filters that the index cannot check.
with s as ({alike} where {matching} group by 1, 2, 3) {grouped};

-- name: apart
-- Dead letters without a position in a stream, oldest first.
select d.id, d.dead_at from duly.deliveries d
where {matching} and d.position is null and (d.dead_at, d.id) > (:after_at, :after)
order by d.dead_at, d.id limit :limit;

-- name: in_line
-- Dead letters with a position in a stream, in order of position.
select d.id, d.stream, d.position from duly.deliveries d indexed by duly.deliveries_dead_line
where {matching} and d.position is not null
  and (d.stream, d.position, d.id) > (:after_stream, :after_position, :after)
order by d.stream, d.position, d.id limit :limit;

-- name: wait
-- Nobody else writes meanwhile, so there is nothing to wait for.
select id from duly.deliveries
where id = :id and namespace = :namespace and state = 'dead' and (position is null or :in_stream);

-- name: retry
-- Dead letters without a position in a stream, due one after the other; for the others see
-- queue.sql.
insert into duly.agenda (lane, delivery, target, priority, due_at, schedule, turn)
select number, number, iif(turn is null, target, -target), priority,
       :now + cast((row_number() over (order by id) - 1) * :spread * 1000000 as integer),
       iif(occasion ->> 'overlap' <> 'allow', schedule, null), turn
from duly.deliveries
where id in (select value from json_each(:ids)) and namespace = :namespace and state = 'dead'
  and position is null and disposition is not 'given_up';
insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
select id, iif(:reset, 0, attempt), 'retried', :now, :why, :note from duly.deliveries
where id in (select value from json_each(:ids)) and namespace = :namespace and state = 'dead'
  and position is null and disposition is not 'given_up';
update duly.deliveries
set state = 'pending', attempt = iif(:reset, 0, attempt), dead_at = null, finished_at = null,
    fingerprint = null
where id in (select value from json_each(:ids)) and namespace = :namespace and state = 'dead'
  and position is null and disposition is not 'given_up'
returning id;

-- name: edit
-- A delivery that was retried in this transaction, so that no worker has seen it yet; the history
-- keeps its old payload.
insert into duly.attempts (delivery, attempt, outcome, finished_at, answer)
select id, attempt, 'edited', :now, '{"payload":' || cast(payload as text) || '}'
from duly.deliveries where id = :id and state = 'pending';
select payload from duly.deliveries where id = :id and state = 'pending';
update duly.deliveries set payload = :payload where id = :id and state = 'pending';

-- name: discard
-- All except those in a stream's queue, which may block it (see queue.sql).
insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
select id, attempt, 'discarded', :now, 'operator', :note from duly.deliveries
where id in (select value from json_each(:ids)) and namespace = :namespace and state = 'dead'
  and lane is null;
update duly.deliveries
set state = 'cancelled', dead_at = null, fingerprint = null, finished_at = :now
where id in (select value from json_each(:ids)) and namespace = :namespace and state = 'dead'
  and lane is null
returning id;

-- name: dispose
-- Holds dead letters, or gives them up; of those in a stream's queue see Members.
insert into duly.attempts (delivery, attempt, outcome, finished_at, reason, error)
select id, attempt, :disposition, :now, :why, :note from duly.deliveries
where id in (select value from json_each(:ids)) and namespace = :namespace and state = 'dead'
  and coalesce(disposition, 'left') not in ('given_up', :disposition);
update duly.deliveries set disposition = :disposition, revive_at = null
where id in (select value from json_each(:ids)) and namespace = :namespace and state = 'dead'
  and coalesce(disposition, 'left') not in ('given_up', :disposition)
returning id;

-- name: let_go
-- Held dead letters are open again, and policies apply to them.
insert into duly.attempts (delivery, attempt, outcome, finished_at, reason)
select id, attempt, 'hold_released', :now, 'operator' from duly.deliveries
where id in (select value from json_each(:ids)) and namespace = :namespace and state = 'dead'
  and disposition = 'held';
update duly.deliveries set disposition = null, revivals = null
where id in (select value from json_each(:ids)) and namespace = :namespace and state = 'dead'
  and disposition = 'held'
returning id;

-- name: crashed
-- Unfinished deliveries whose workers died while they held them, most crashes first.
select d.id, t.name as target, d.attempt, a.crashes, d.retry from duly.agenda a
join duly.deliveries d on d.number = a.delivery
join duly.targets t on t.id = d.target
where (a.halted is not null or a.crashes > 0) and a.crashes > 0 and d.state = 'pending'
  and d.namespace = :namespace
order by a.crashes desc, d.attempt desc, d.id limit :limit;

-- name: suspects
-- Unfinished deliveries that failed or whose workers died, most crashes first.
select d.id, t.name as target, d.attempt, a.crashes, d.retry from duly.agenda a
join duly.deliveries d on d.number = a.delivery
join duly.targets t on t.id = d.target
where (a.crashes > 0 or d.attempt > 0) and d.state = 'pending' and d.namespace = :namespace
order by a.crashes desc, d.attempt desc, d.id limit :limit;
