create table duly.targets (
    id        integer primary key,
    namespace text not null,
    name      text not null,
    unique (namespace, name)
);

create table duly.workers (
    id           integer primary key autoincrement,
    namespace    text not null,
    name         text not null,
    version      text not null,
    handlers     text not null,
    concurrency  integer not null,
    lease        real not null,
    started_at   integer not null,
    beat_at      integer not null,
    ended_at     integer,
    ended_how    text check (ended_how in ('stopped', 'died')),
    reclaimed_at integer
);

-- The ledger: every delivery, all its facts. "processing" is not stored here: a pending
-- delivery whose lane is held is processing. The agenda knows a delivery by its number, since
-- SQLite finds a row by that in one step, and by its id in two.
create table duly.deliveries (
    number      integer primary key,
    id          text not null unique,
    lane        integer,
    target      integer not null,
    priority    integer not null,
    attempt     integer not null default 0,
    state       text not null default 'pending'
                check (state in ('pending', 'completed', 'dead', 'cancelled')),
    namespace   text not null,
    stream      text,
    position    integer,
    key         text,
    address     text,
    schedule    integer,
    occurrence  text,
    occasion    text,
    due_at      integer not null,
    accepted_at integer not null,
    expires_at  integer,
    started_at  integer,
    finished_at integer,
    dead_at     integer,
    token       integer,
    tags        text,
    retry       text,
    reason      text,
    error       text,
    payload     blob not null
);

create unique index duly.deliveries_key on duly.deliveries (namespace, key) where key is not null;
create unique index duly.deliveries_occurrence on duly.deliveries (schedule, occurrence)
    where schedule is not null;
create index duly.deliveries_dead on duly.deliveries (dead_at) where dead_at is not null;

-- The agenda: one row per lane that has work, and nothing else. token says who holds it, null
-- nobody; crashes counts dead holders; a lane at priority 0 runs alone; schedule is there if its
-- occurrences must not overlap. A lane of one has its delivery's number.
create table duly.agenda (
    lane       integer primary key,
    delivery   integer not null,
    due_at     integer not null,
    token      integer,
    claimed_at integer,
    target     integer not null,
    priority   integer not null,
    crashes    integer not null default 0,
    schedule   integer
);

create index duly.agenda_open on duly.agenda (priority, target, due_at) where token is null;
create index duly.agenda_held on duly.agenda (token) where token is not null;
create index duly.agenda_schedule on duly.agenda (schedule) where schedule is not null;

-- The history: every move but the usual last one, which the ledger's own row tells.
create table duly.attempts (
    delivery    text not null,
    attempt     integer not null,
    outcome     text not null,
    token       integer,
    started_at  integer,
    finished_at integer not null,
    next_at     integer,
    reason      text,
    error       text,
    answer      text
);

create index duly.attempts_delivery on duly.attempts (delivery);

-- A delivery as people see it: the ledger's row with what its lane knows.
create view duly.booked as
select d.id, d.namespace, t.name as target, d.priority, d.attempt, d.due_at, d.accepted_at,
       d.started_at, d.finished_at, d.expires_at, d.key, d.address, d.schedule, d.occasion, d.tags, d.reason, d.error, d.payload,
       a.due_at as next_at, a.claimed_at, a.crashes, coalesce(a.token, d.token) as token,
       case when a.token is not null then 'processing' else d.state end as state
from duly.deliveries d
join duly.targets t on t.id = d.target
left join duly.agenda a on a.lane = coalesce(d.lane, d.number) and a.delivery = d.number;

create trigger duly.lay_lane after insert on duly.deliveries
when new.lane is null and new.state = 'pending'
begin
    insert into duly.agenda (lane, delivery, target, priority, due_at, schedule)
    values (new.number, new.number, new.target, new.priority, new.due_at,
            iif(new.occasion ->> 'overlap' <> 'allow', new.schedule, null));
end;

create trigger duly.only_drawn_moves before update of state on duly.deliveries
when old.state <> new.state
     and old.state <> 'pending' and not (old.state = 'dead' and new.state = 'pending')
begin
    select raise(abort, 'a finished delivery cannot move to that state');
end;
