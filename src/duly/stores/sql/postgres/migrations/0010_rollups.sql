-- What happened in each minute, as each worker wrote it down: rows are added to for a minute, and
-- never again. Worker 0 stands for processes that only accept.
create table duly.rollups (
    namespace        text not null,
    minute_at        timestamptz not null,
    worker           bigint not null,
    accepted         bigint not null,
    completed        bigint not null,
    failed           bigint not null,
    dead             bigint not null,
    cancelled        bigint not null,
    on_time          bigint not null,
    late             bigint not null,
    reclaimed        bigint not null,
    lateness_seconds double precision not null,
    run_seconds      double precision not null,
    primary key (namespace, minute_at, worker)
) with (fillfactor = 50);

-- Circuits that are open, of however many targets there are.
create index gates_opened on duly.gates (opened_at) where opened_at is not null;

-- The span under which a delivery was accepted: only for those whose callers trace, so that nobody
-- else's row is wider for it.
create table duly.traces (
    delivery  uuid primary key,
    namespace text not null,
    parent    text not null,
    kept_at   timestamptz not null
);
