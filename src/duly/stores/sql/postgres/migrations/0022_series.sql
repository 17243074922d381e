-- Distributions of durations: how many values each bucket has. Rows from before have none.
alter table duly.rollups add column lateness bigint[];
alter table duly.rollups add column pickup bigint[];
alter table duly.rollups add column run bigint[];

-- Outcomes of one target or one schedule in each minute, for those that had any. Reading goes along
-- the key, pruning along the index.
create table duly.part_rollups (
    namespace text not null,
    kind      text not null,
    name      text not null,
    minute_at timestamptz not null,
    worker    bigint not null,
    completed bigint not null,
    failed    bigint not null,
    dead      bigint not null,
    cancelled bigint not null,
    primary key (namespace, kind, name, minute_at, worker)
) with (fillfactor = 90);
create index part_rollups_minute on duly.part_rollups (minute_at);
