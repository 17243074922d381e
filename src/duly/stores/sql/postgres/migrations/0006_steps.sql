-- What handlers did in part: rows are added, and leave with their delivery.
create table duly.steps (
    delivery uuid not null,
    name     text not null,
    attempt  smallint not null,
    done_at  timestamptz not null,
    result   text,
    primary key (delivery, name)
);

-- For the figures: what failed lately, and which retries are to come. Neither is written by an end
-- that is not a failure.
create index attempts_failed on duly.attempts (finished_at)
    where outcome in ('retry', 'dead', 'reclaimed');
create index attempts_next on duly.attempts (next_at) where next_at is not null;
