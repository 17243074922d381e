-- A named endpoint: a webhook that people can edit, pause and limit while work waits for it.
create table duly.endpoints (
    target       integer primary key,
    namespace    text not null,
    name         text not null,
    version      bigint not null default 1,
    url          text not null,
    description  text not null,
    method       text not null,
    headers      text not null,
    timeout      double precision not null,
    rate         double precision,
    in_flight    integer,
    retry        text,
    secrets      text not null,
    state        text not null default 'active' check (state in ('active', 'paused', 'disabled')),
    state_reason text,
    state_at     timestamptz not null,
    created_at   timestamptz not null,
    unique (namespace, name)
);

-- What all workers know of a target: its circuit, and up to when its rate is used up. There is a
-- row once something failed, or if there are limits.
create table duly.gates (
    target          integer primary key,
    failures        integer not null default 0,
    first_failed_at timestamptz,
    opened_at       timestamptz,
    probe_at        timestamptz,
    probing         boolean not null default false,
    probes          integer not null default 0,
    paced_at        timestamptz
) with (fillfactor = 50);

-- How many deliveries each worker has under way to a target that takes only so many at once.
create table duly.in_flight (
    target integer not null,
    worker bigint not null,
    many   integer not null,
    primary key (target, worker)
) with (fillfactor = 50);

create view duly.endpoint_list as
select e.*, g.failures, g.first_failed_at, g.opened_at, g.probe_at, g.probing, g.probes, g.paced_at
from duly.endpoints e left join duly.gates g on g.target = e.target;
