-- Since when a worker claims nothing, so that a suspect can run alone on it: one of a namespace at a time.
alter table duly.workers add column aside_at timestamptz;
create unique index workers_aside on duly.workers (namespace)
    where aside_at is not null and ended_at is null;
