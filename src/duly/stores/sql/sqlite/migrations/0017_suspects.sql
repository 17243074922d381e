-- Since when a worker claims nothing, so that a suspect can run alone on it: one of a namespace at a time.
alter table duly.workers add column aside_at integer;
create unique index duly.workers_aside on duly.workers (namespace)
    where aside_at is not null and ended_at is null;

-- What was counted against deliveries when their workers died, by worker: one that comes back takes it back.
create index duly.attempts_crashed on duly.attempts (token)
    where started_at is null and outcome in ('reclaimed', 'retry');
