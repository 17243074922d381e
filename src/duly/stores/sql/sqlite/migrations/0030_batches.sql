-- Batches: deliveries whose end is announced by one more delivery, the completion. A batch takes
-- members until closed_at, and is finished when all of them have ended. completion is the delivery
-- that is sent then, as JSON without its address; delivery is its id once it is sent.
--
-- Nothing is counted when a member is accepted or settled. The counts are those of counted_at, or of
-- the end.
create table duly.batches (
    id           text primary key,
    namespace    text not null,
    name         text,
    completion   text not null,
    address      text,
    opened_at    integer not null,
    closed_at    integer,
    cancelled_at integer,
    finished_at  integer,
    counted_at   integer,
    pending      integer not null default 0,
    completed    integer not null default 0,
    dead         integer not null default 0,
    cancelled    integer not null default 0,
    delivery     text,
    problem      text
);

create index duly.batches_listed on duly.batches (namespace, id);
create index duly.batches_unfinished on duly.batches (namespace, id) where finished_at is null;
create index duly.batches_cancelled on duly.batches (namespace, id) where cancelled_at is not null;
create index duly.batches_finished on duly.batches (namespace, finished_at)
    where finished_at is not null;

-- Neither index has a column that a claim or a completion changes: dead_at is in others already.
alter table duly.deliveries add column batch text;
create index duly.deliveries_batch on duly.deliveries (batch, id) where batch is not null;
create index duly.deliveries_batch_dead on duly.deliveries (batch)
    where batch is not null and dead_at is not null;
