-- What is to happen with a dead letter. disposition is null until a policy was applied to it:
-- recovering (it is retried at revive_at), left (no policy applies), held or given_up.
-- revivals counts the retries by policies since an operator last retried it; generation is the last
-- generation that tried it.
alter table duly.deliveries add column disposition text
    check (disposition in ('recovering', 'left', 'held', 'given_up'));
alter table duly.deliveries add column revive_at integer;
alter table duly.deliveries add column revivals integer;
alter table duly.deliveries add column generation text;
create index duly.deliveries_undecided on duly.deliveries (namespace, target, dead_at)
    where dead_at is not null and disposition is null;
create index duly.deliveries_disposed on duly.deliveries (namespace, disposition, dead_at, id)
    where disposition is not null;
create index duly.deliveries_revive on duly.deliveries (namespace, revive_at)
    where revive_at is not null;

-- An empty target means all targets.
create table duly.recovery_policies (
    namespace text not null,
    target    text not null,
    reason    text not null,
    tries     integer not null,
    cool_down real not null,
    ending    text,
    primary key (namespace, target, reason)
) without rowid;

-- The digest of the policies that were applied to all dead letters, and up to when the rate of
-- recovery is used up.
create table duly.recovery (
    namespace text primary key,
    digest    text,
    paced_at  integer
) without rowid;

-- The generations of deployments. A demanded one is for workers of any generation.
create table duly.generations (
    namespace text not null,
    name      text not null,
    first_at  integer not null,
    with_held integer not null,
    demanded  integer not null,
    tried     integer not null default 0,
    done_at   integer,
    primary key (namespace, name)
) without rowid;

alter table duly.workers add column generation text;

-- A request was for the attempts before it became a dead letter, and a disposition is for dead
-- letters.
drop trigger duly.forget_running;
create trigger duly.leave_dead after update of state on duly.deliveries
when old.state = 'dead' and new.state <> 'dead'
begin
    delete from duly.running where delivery = new.id;
    update duly.deliveries set disposition = null, revive_at = null, revivals = null
    where number = new.number and (disposition is not null or revivals is not null);
end;

drop view duly.booked;

create view duly.booked as
select d.id, d.namespace, t.name as target, d.priority, d.attempt, d.due_at, d.accepted_at,
       d.started_at, d.finished_at, d.dead_at, d.expires_at, d.key, d.address, d.stream, d.position,
       d.schedule, d.occasion, d.tags, d.retry, d.reason, d.error, d.fingerprint, d.payload,
       iif(a.halted is null, a.due_at, null) as next_at, a.claimed_at,
       iif(d.state = 'dead', d.crashes, a.crashes) as crashes,
       coalesce(a.token, d.token) as token,
       case when a.token is not null then 'processing' else d.state end as state,
       case when r.token = a.token then r.progress end as progress,
       case when r.token = a.token then r.note end as progress_note,
       case when r.token = a.token then r.reported_at end as progress_at,
       case when r.token = a.token then r.overran_at end as overran_at,
       case when d.state = 'pending' then r.asked_at end as cancel_asked_at,
       nullif(d.disposition, 'left') as disposition, d.revive_at,
       coalesce(d.revivals, 0) as revivals, d.generation,
       case when d.disposition in ('held', 'given_up') then (
           select h.error from duly.attempts h
           where h.delivery = d.id and h.outcome = d.disposition order by h.finished_at desc limit 1
       ) end as disposition_note
from duly.deliveries d
join duly.targets t on t.id = d.target
left join duly.agenda a on a.lane = coalesce(d.lane, d.number) and a.delivery = d.number
left join duly.running r on r.delivery = d.id;
