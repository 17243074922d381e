-- What is known of running deliveries beside their lanes: how far they are, and whether somebody
-- asked to cancel them. A row goes when its delivery has ended, or when it is held under another
-- token and nobody asked.
create table duly.running (
    delivery    uuid primary key,
    token       bigint,
    progress    double precision,
    note        text,
    reported_at timestamptz,
    overran_at  timestamptz,
    asked_at    timestamptz,
    asked_by    text
);

-- A request was for the attempts before it became a dead letter.
create function duly.forget_running() returns trigger language plpgsql as $$
begin
    delete from duly.running where delivery = new.id;
    return null;
end $$;

create trigger forget_running after update on duly.deliveries for each row
    when (old.state = 'dead' and new.state = 'pending')
    execute function duly.forget_running();

drop view duly.booked;

create view duly.booked as
select d.id, d.namespace, t.name as target, d.priority, d.attempt, d.due_at, d.accepted_at,
       d.started_at, d.finished_at, d.dead_at, d.expires_at, d.key, d.address, d.stream, d.position,
       d.schedule, d.occasion, d.tags, d.retry, d.reason, d.error, d.fingerprint, d.payload,
       case when a.halted is null then a.due_at end as next_at, a.claimed_at,
       case when d.state = 'dead' then d.crashes else a.crashes end as crashes,
       coalesce(a.token, d.token) as token,
       case when a.token is not null then 'processing' else d.state end as state,
       case when r.token = a.token then r.progress end as progress,
       case when r.token = a.token then r.note end as progress_note,
       case when r.token = a.token then r.reported_at end as progress_at,
       case when r.token = a.token then r.overran_at end as overran_at,
       case when d.state = 'pending' then r.asked_at end as cancel_asked_at
from duly.deliveries d
join duly.targets t on t.id = d.target
left join duly.agenda a on a.lane = coalesce(d.lane, d.id) and a.delivery = d.id
left join duly.running r on r.delivery = d.id;
