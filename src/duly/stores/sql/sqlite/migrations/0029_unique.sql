-- Deliveries of which only one with the same key waits at a time. unique_key is null in all others;
-- replaced counts how often a later one took its place, and replaced_at is when that happened last.
alter table duly.deliveries add column unique_key text;
alter table duly.deliveries add column replaced integer;
alter table duly.deliveries add column replaced_at integer;
create index duly.deliveries_unique_key on duly.deliveries (namespace, unique_key, id)
    where unique_key is not null;

-- For each target and unique key, the delivery that was the last to wait, and the one that was
-- running when it was added. A claim does not write here: the agenda says which of them a worker
-- holds.
create table duly.unique_keys (
    target  integer not null,
    key     text not null,
    waiting text,
    running text,
    primary key (target, key)
) without rowid;

-- Keys to look at again: a lane of theirs was freed by a repair.
create table duly.unsettled_keys (
    target integer not null,
    key    text not null,
    primary key (target, key)
) without rowid;
