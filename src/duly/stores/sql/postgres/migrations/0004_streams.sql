-- A stream: its deliveries share a lane and run in the order of their positions. Whoever adds to a
-- stream holds its row until the end of the transaction, so positions are in order of commit.
create table duly.streams (
    lane       uuid primary key default gen_random_uuid(),
    namespace  text not null,
    name       text not null,
    counter    bigint not null,
    on_failure text check (on_failure in ('block', 'release')),
    paused_at  timestamptz,
    reason     text,
    used_at    timestamptz not null,
    unique (namespace, name)
) with (fillfactor = 50);

alter table duly.deliveries add column on_failure text check (on_failure in ('block', 'release'));

-- The line that waits in a stream. Finished ones stay in it until they are pruned: an index that
-- knew the state would be written at every end.
create index deliveries_line on duly.deliveries (lane, position) where lane is not null;

-- Of a stream's lane: where in the line its head is; from where to go on because somebody retried
-- an earlier one while the lane was held; and whether the stream stands still, blocked by a dead
-- head or paused, since when. One that stands still is never due.
alter table duly.agenda add column position bigint;
alter table duly.agenda add column replay_from bigint;
alter table duly.agenda add column halted text check (halted in ('blocked', 'paused'));
alter table duly.agenda add column halted_at timestamptz;

create index agenda_halted on duly.agenda (halted_at) where halted is not null;

drop view duly.booked;

create view duly.booked as
select d.id, d.namespace, t.name as target, d.priority, d.attempt, d.due_at, d.accepted_at,
       d.started_at, d.finished_at, d.expires_at, d.key, d.address, d.stream, d.position,
       d.schedule, d.occasion, d.tags, d.reason, d.error, d.payload,
       case when a.halted is null then a.due_at end as next_at, a.claimed_at, a.crashes,
       coalesce(a.token, d.token) as token,
       case when a.token is not null then 'processing' else d.state end as state
from duly.deliveries d
join duly.targets t on t.id = d.target
left join duly.agenda a on a.lane = coalesce(d.lane, d.id) and a.delivery = d.id;
