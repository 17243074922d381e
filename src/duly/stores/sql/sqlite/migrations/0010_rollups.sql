-- What happened in each minute, as each worker wrote it down: rows are added to for a minute, and
-- never again. Worker 0 stands for processes that only accept.
create table duly.rollups (
    namespace        text not null,
    minute_at        integer not null,
    worker           integer not null,
    accepted         integer not null,
    completed        integer not null,
    failed           integer not null,
    dead             integer not null,
    cancelled        integer not null,
    on_time          integer not null,
    late             integer not null,
    reclaimed        integer not null,
    lateness_seconds real not null,
    run_seconds      real not null,
    primary key (namespace, minute_at, worker)
) without rowid;

-- Circuits that are open, of however many targets there are.
create index duly.gates_opened on duly.gates (opened_at) where opened_at is not null;

-- The span under which a delivery was accepted: only for those whose callers trace, so that nobody
-- else's row is wider for it.
create table duly.traces (
    delivery  text primary key,
    namespace text not null,
    parent    text not null,
    kept_at   integer not null
) without rowid;
