-- Requests to the API that carried an Idempotency-Key: what was asked, and the answer once there is
-- one. The seed names what the request makes, so that doing it again makes nothing more.
create table duly.requests (
    namespace   text not null,
    key         text not null,
    fingerprint text not null,
    seed        uuid not null,
    begun_at    timestamptz not null,
    status      smallint,
    headers     text,
    answer      bytea,
    primary key (namespace, key)
);

create index requests_begun on duly.requests (namespace, begun_at);

-- A worker that is to start nothing more, until somebody says otherwise or it ends.
alter table duly.workers add column draining_at timestamptz;
