-- A schedule: its rule and what it delivers.
create table duly.schedules (
    id              bigint generated always as identity primary key,
    namespace       text not null,
    name            text not null,
    version         integer not null default 1,
    rule            text not null,
    catch_up        text not null,
    catch_up_window double precision,
    catch_up_cap    integer not null,
    overlap         text not null,
    starts_at       timestamptz,
    ends_at         timestamptz,
    max_runs        integer,
    jitter          double precision not null,
    target          integer not null,
    address         text,
    payload         bytea,
    priority        smallint not null,
    stream          text,
    expires_after   double precision,
    retry           text,
    tags            jsonb,
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    paused_at       timestamptz,
    pause_reason    text,
    unique (namespace, name)
);

-- How far a schedule has come, apart from it: this is written at every occurrence. next_at is when
-- the planner looks at it, null when nothing is to come. version counts all changes, those of the
-- schedule too, so that a plan can tell that it was made of what still is. zone_hash says from which
-- zone data the occurrence on the books was computed.
create table duly.progress (
    schedule  bigint primary key,
    namespace text not null,
    version   integer not null default 0,
    fired     text,
    fired_at  timestamptz not null,
    made      text,
    made_at   timestamptz,
    made_id   uuid,
    next_at   timestamptz,
    runs      bigint not null default 0,
    merged    bigint not null default 0,
    skipped   bigint not null default 0,
    zone         text,
    zone_hash    text,
    zone_version text
) with (fillfactor = 50);

create index progress_next on duly.progress (namespace, next_at, schedule)
    where next_at is not null;

-- The latest moment up to which a planner has planned: a clock behind it has stepped back.
create table duly.planned (
    namespace text primary key,
    until_at  timestamptz not null
) with (fillfactor = 50);

-- Who changed what.
create table duly.audit (
    id        bigint generated always as identity primary key,
    namespace text not null,
    done_at   timestamptz not null,
    actor     text not null,
    action    text not null,
    subject   text not null,
    detail    jsonb
);

create index audit_namespace on duly.audit (namespace, id);
