-- Deliveries with a fair key or a limit key. turn is 'fair:' or 'limit:' and the key. Their lanes
-- have the negative number of their target, so that claims of other lanes never read them; they are
-- claimed key by key (turns.sql).
alter table duly.deliveries add column turn text;
alter table duly.agenda add column turn text;
create index duly.agenda_turn on duly.agenda (target, priority, turn, due_at)
    where token is null and turn is not null;
create index duly.agenda_turn_held on duly.agenda (target, turn)
    where token is not null and turn is not null;

-- What the limits of a key need, beside the lanes that are held. A claim adds one to version, and
-- applies only if version is as it was when the claim was decided.
create table duly.limit_keys (
    target   integer not null,
    turn     text not null,
    version  integer not null,
    paced_at integer,
    primary key (target, turn)
) without rowid;

drop trigger duly.lay_lane;
create trigger duly.lay_lane after insert on duly.deliveries
when new.lane is null and new.state = 'pending'
begin
    insert into duly.agenda (lane, delivery, target, priority, due_at, schedule, turn)
    values (new.number, new.number, iif(new.turn is null, new.target, -new.target), new.priority,
            new.due_at, iif(new.occasion ->> 'overlap' <> 'allow', new.schedule, null), new.turn);
end;

drop view duly.booked;

create view duly.booked as
select d.id, d.namespace, t.name as target, d.priority, d.attempt, d.due_at, d.accepted_at,
       d.started_at, d.finished_at, d.dead_at, d.expires_at, coalesce(d.key, d.unique_key) as key,
       iif(d.unique_key is not null, 'pending', null) as "unique",
       coalesce(d.replaced, 0) as replaced, d.replaced_at, d.address, d.turn, d.stream, d.position,
       d.schedule, d.occasion, d.tags, d.retry, d.reason, d.error, d.fingerprint, d.payload,
       iif(a.halted is null and (d.unique_key is null or a.due_at < 253402214400000000), a.due_at, null)
           as next_at, a.claimed_at,
       iif(d.state = 'dead', d.crashes, a.crashes) as crashes,
       coalesce(a.token, d.token) as token,
       case when a.token is not null then 'processing' else d.state end as state,
       case when r.token = a.token then r.progress end as progress,
       case when r.token = a.token then r.note end as progress_note,
       case when r.token = a.token then r.reported_at end as progress_at,
       case when r.token = a.token then r.overran_at end as overran_at,
       case when d.state = 'pending' then r.asked_at end as cancel_asked_at,
       nullif(d.disposition, 'left') as disposition, d.revive_at,
       coalesce(d.revivals, 0) as revivals, d.generation, d.batch,
       case when d.disposition in ('held', 'given_up') then (
           select h.error from duly.attempts h
           where h.delivery = d.id and h.outcome = d.disposition order by h.finished_at desc limit 1
       ) end as disposition_note
from duly.deliveries d
join duly.targets t on t.id = d.target
left join duly.agenda a on a.lane = coalesce(d.lane, d.number) and a.delivery = d.number
left join duly.running r on r.delivery = d.id;
