-- Since when a worker claims nothing, so that a suspect can run alone on it.
alter table duly.workers add column aside_at integer;

-- What was counted against deliveries when their workers died, by worker: one that comes back takes it back.
create index duly.attempts_crashed on duly.attempts (token)
    where started_at is null and outcome in ('reclaimed', 'retry');

-- Lanes that stand still and lanes whose holders died: few of either. Both in one index, since whatever
-- writes to a table opens all indexes of it; a statement finds it by the same condition.
drop index duly.agenda_halted;
create index duly.agenda_unusual on duly.agenda (halted_at) where halted is not null or crashes > 0;

-- How many workers a dead letter killed: its lane, which counted them, is gone.
alter table duly.deliveries add column crashes integer;

drop view duly.booked;

create view duly.booked as
select d.id, d.namespace, t.name as target, d.priority, d.attempt, d.due_at, d.accepted_at,
       d.started_at, d.finished_at, d.dead_at, d.expires_at, d.key, d.address, d.stream, d.position,
       d.schedule, d.occasion, d.tags, d.reason, d.error, d.fingerprint, d.payload,
       iif(a.halted is null, a.due_at, null) as next_at, a.claimed_at,
       iif(d.state = 'dead', d.crashes, a.crashes) as crashes,
       coalesce(a.token, d.token) as token,
       case when a.token is not null then 'processing' else d.state end as state
from duly.deliveries d
join duly.targets t on t.id = d.target
left join duly.agenda a on a.lane = coalesce(d.lane, d.number) and a.delivery = d.number;
