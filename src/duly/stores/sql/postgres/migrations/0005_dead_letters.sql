-- What like errors have in common, while a delivery is dead. Those that died before have none.
alter table duly.deliveries add column fingerprint text;

-- Dead letters by their deaths, and those with a place in a stream by their places: a replay goes
-- in that order. Neither knows anything that the usual end of a delivery changes.
drop index duly.deliveries_dead;
create index deliveries_dead on duly.deliveries (namespace, dead_at, id) where dead_at is not null;
create index deliveries_dead_line on duly.deliveries (namespace, stream, position, id)
    where dead_at is not null and position is not null;

drop view duly.booked;

create view duly.booked as
select d.id, d.namespace, t.name as target, d.priority, d.attempt, d.due_at, d.accepted_at,
       d.started_at, d.finished_at, d.dead_at, d.expires_at, d.key, d.address, d.stream, d.position,
       d.schedule, d.occasion, d.tags, d.reason, d.error, d.fingerprint, d.payload,
       case when a.halted is null then a.due_at end as next_at, a.claimed_at, a.crashes,
       coalesce(a.token, d.token) as token,
       case when a.token is not null then 'processing' else d.state end as state
from duly.deliveries d
join duly.targets t on t.id = d.target
left join duly.agenda a on a.lane = coalesce(d.lane, d.id) and a.delivery = d.id;

-- A dead letter may be discarded.
drop trigger only_drawn_moves on duly.deliveries;
create trigger only_drawn_moves before update on duly.deliveries for each row
    when (old.state <> new.state and old.state <> 'pending'
          and not (old.state = 'dead' and new.state in ('pending', 'cancelled')))
    execute function duly.refuse_move();
