create table duly.targets (
    id        integer generated always as identity primary key,
    namespace text not null,
    name      text not null,
    unique (namespace, name)
);

create table duly.workers (
    id           bigint generated always as identity primary key,
    namespace    text not null,
    name         text not null,
    version      text not null,
    handlers     jsonb not null,
    concurrency  integer not null,
    lease        double precision not null,
    started_at   timestamptz not null,
    beat_at      timestamptz not null,
    ended_at     timestamptz,
    ended_how    text check (ended_how in ('stopped', 'died')),
    reclaimed_at timestamptz
) with (fillfactor = 50);

-- The ledger: every delivery, all its facts. "processing" is not stored here: a pending
-- delivery whose lane is held is processing. So a claim writes one narrow row, and the only
-- update of this wide one on the usual way is the last. Nothing that this update changes is
-- indexed, and pages keep room for it, so it stays on its page and touches no index.
create table duly.deliveries (
    id          uuid primary key,
    lane        uuid,
    target      integer not null,
    priority    smallint not null,
    attempt     smallint not null default 0,
    state       text not null default 'pending'
                check (state in ('pending', 'completed', 'dead', 'cancelled')),
    namespace   text not null,
    stream      text,
    position    bigint,
    key         text,
    address     text,
    schedule    bigint,
    occurrence  text,
    occasion    text,
    due_at      timestamptz not null,
    accepted_at timestamptz not null,
    expires_at  timestamptz,
    started_at  timestamptz,
    finished_at timestamptz,
    dead_at     timestamptz,
    token       bigint,
    tags        jsonb,
    retry       text,
    reason      text,
    error       text,
    payload     bytea not null
) with (fillfactor = 42, autovacuum_vacuum_scale_factor = 0.05);

create unique index deliveries_key on duly.deliveries (namespace, key) where key is not null;
create unique index deliveries_occurrence on duly.deliveries (schedule, occurrence)
    where schedule is not null;
create index deliveries_dead on duly.deliveries (dead_at) where dead_at is not null;

-- The agenda: one row per lane that has work, and nothing else. token says who holds it, null
-- nobody; crashes counts dead holders; a lane at priority 0 runs alone; schedule is there if its
-- occurrences must not overlap. No index knows the token, and pages keep room, so that marking a
-- lane as held touches no index.
create table duly.agenda (
    lane       uuid primary key,
    delivery   uuid not null,
    due_at     timestamptz not null,
    token      bigint,
    claimed_at timestamptz,
    target     integer not null,
    priority   smallint not null,
    crashes    smallint not null default 0,
    schedule   bigint
) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index agenda_open on duly.agenda (priority, target, due_at);
create index agenda_schedule on duly.agenda (schedule) where schedule is not null;

-- Which lanes each claim took, until all of them are settled: the way from a worker to its lanes.
create table duly.claims (
    token bigint primary key,
    lanes uuid[] not null
);

alter table duly.claims alter column lanes set storage external;

-- The history: every move but the usual last one, which the ledger's own row tells.
create table duly.attempts (
    delivery    uuid not null,
    attempt     smallint not null,
    outcome     text not null,
    token       bigint,
    started_at  timestamptz,
    finished_at timestamptz not null,
    next_at     timestamptz,
    reason      text,
    error       text,
    answer      text
);

create index attempts_delivery on duly.attempts (delivery);

-- A delivery as people see it: the ledger's row with what its lane knows.
create view duly.booked as
select d.id, d.namespace, t.name as target, d.priority, d.attempt, d.due_at, d.accepted_at,
       d.started_at, d.finished_at, d.expires_at, d.key, d.address, d.schedule, d.occasion, d.tags, d.reason, d.error, d.payload,
       a.due_at as next_at, a.claimed_at, a.crashes, coalesce(a.token, d.token) as token,
       case when a.token is not null then 'processing' else d.state end as state
from duly.deliveries d
join duly.targets t on t.id = d.target
left join duly.agenda a on a.lane = coalesce(d.lane, d.id) and a.delivery = d.id;

create function duly.refuse_move() returns trigger language plpgsql as $$
begin
    raise exception 'delivery % is %, it cannot become %', old.id, old.state, new.state
        using errcode = 'integrity_constraint_violation';
end $$;

create trigger only_drawn_moves before update on duly.deliveries for each row
    when (old.state <> new.state
          and old.state <> 'pending' and not (old.state = 'dead' and new.state = 'pending'))
    execute function duly.refuse_move();
