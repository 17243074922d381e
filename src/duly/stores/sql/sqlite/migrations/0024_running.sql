-- What is known of running deliveries beside their lanes: how far they are, and whether somebody
-- asked to cancel them. A row goes when its delivery has ended, or when it is held under another
-- token and nobody asked.
create table duly.running (
    delivery    text primary key,
    token       integer,
    progress    real,
    note        text,
    reported_at integer,
    overran_at  integer,
    asked_at    integer,
    asked_by    text
);

-- A request was for the attempts before it became a dead letter.
create trigger duly.forget_running after update of state on duly.deliveries
when old.state = 'dead' and new.state = 'pending'
begin
    delete from duly.running where delivery = new.id;
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
       case when d.state = 'pending' then r.asked_at end as cancel_asked_at
from duly.deliveries d
join duly.targets t on t.id = d.target
left join duly.agenda a on a.lane = coalesce(d.lane, d.number) and a.delivery = d.number
left join duly.running r on r.delivery = d.id;
