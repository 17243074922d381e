-- Since when a worker claims nothing, so that a suspect can run alone on it.
alter table duly.workers add column aside_at timestamptz;

-- What was counted against deliveries when their workers died, by worker: one that comes back takes it back.
create index attempts_crashed on duly.attempts (token)
    where started_at is null and outcome in ('reclaimed', 'retry');

-- The head of a stream is due when it expires at the latest, or it would hold up its stream in vain.
do $$
declare
    before text := pg_get_functiondef('duly.accept(json)'::regprocedure);
    after text := replace(before, 'then r.due_at else', 'then least(r.due_at, r.expires_at) else');
begin
    assert after <> before, 'duly.accept is not the one that 0007 made';
    execute after;
end $$;

-- Lanes whose holders died: few, and what claiming changes is not in it.
create index agenda_crashed on duly.agenda (crashes) where crashes > 0;

-- How many workers a dead letter killed: its lane, which counted them, is gone.
alter table duly.deliveries add column crashes smallint;

drop view duly.booked;

create view duly.booked as
select d.id, d.namespace, t.name as target, d.priority, d.attempt, d.due_at, d.accepted_at,
       d.started_at, d.finished_at, d.dead_at, d.expires_at, d.key, d.address, d.stream, d.position,
       d.schedule, d.occasion, d.tags, d.reason, d.error, d.fingerprint, d.payload,
       case when a.halted is null then a.due_at end as next_at, a.claimed_at,
       case when d.state = 'dead' then d.crashes else a.crashes end as crashes,
       coalesce(a.token, d.token) as token,
       case when a.token is not null then 'processing' else d.state end as state
from duly.deliveries d
join duly.targets t on t.id = d.target
left join duly.agenda a on a.lane = coalesce(d.lane, d.id) and a.delivery = d.id;
