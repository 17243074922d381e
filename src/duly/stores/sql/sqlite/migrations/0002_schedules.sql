-- A schedule: its rule and what it delivers.
create table duly.schedules (
    id              integer primary key autoincrement,
    namespace       text not null,
    name            text not null,
    version         integer not null default 1,
    rule            text not null,
    catch_up        text not null,
    catch_up_window real,
    catch_up_cap    integer not null,
    overlap         text not null,
    starts_at       integer,
    ends_at         integer,
    max_runs        integer,
    jitter          real not null,
    target          integer not null,
    address         text,
    payload         blob,
    priority        integer not null,
    stream          text,
    expires_after   real,
    retry           text,
    tags            text,
    created_at      integer not null,
    updated_at      integer not null,
    paused_at       integer,
    pause_reason    text,
    unique (namespace, name)
);

-- How far a schedule has come, apart from it: this is written at every occurrence. next_at is when
-- the planner looks at it, null when nothing is to come. version counts all changes, those of the
-- schedule too, so that a plan can tell that it was made of what still is. zone_hash says from which
-- zone data the occurrence on the books was computed.
create table duly.progress (
    schedule  integer primary key,
    namespace text not null,
    version   integer not null default 0,
    fired     text,
    fired_at  integer not null,
    made      text,
    made_at   integer,
    made_id   text,
    next_at   integer,
    runs      integer not null default 0,
    merged    integer not null default 0,
    skipped   integer not null default 0,
    zone         text,
    zone_hash    text,
    zone_version text
);

create index duly.progress_next on duly.progress (namespace, next_at, schedule)
    where next_at is not null;

-- The latest moment up to which a planner has planned: a clock behind it has stepped back.
create table duly.planned (
    namespace text primary key,
    until_at  integer not null
);

-- Who changed what.
create table duly.audit (
    id        integer primary key autoincrement,
    namespace text not null,
    done_at   integer not null,
    actor     text not null,
    action    text not null,
    subject   text not null,
    detail    text
);

create index duly.audit_namespace on duly.audit (namespace, id);
