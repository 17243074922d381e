-- Distributions of durations: how many values each bucket has. Rows from before have none.
alter table duly.rollups add column lateness text;
alter table duly.rollups add column pickup text;
alter table duly.rollups add column run text;

-- Outcomes of one target or one schedule in each minute, for those that had any. Reading goes along
-- the key, pruning along the index.
create table duly.part_rollups (
    namespace text not null,
    kind      text not null,
    name      text not null,
    minute_at integer not null,
    worker    integer not null,
    completed integer not null,
    failed    integer not null,
    dead      integer not null,
    cancelled integer not null,
    primary key (namespace, kind, name, minute_at, worker)
) without rowid;
create index duly.part_rollups_minute on duly.part_rollups (minute_at);
