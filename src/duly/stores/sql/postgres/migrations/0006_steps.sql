-- What handlers did in part: rows are added, and leave with their delivery.
create table duly.steps (
    delivery uuid not null,
    name     text not null,
    attempt  smallint not null,
    done_at  timestamptz not null,
    result   text,
    primary key (delivery, name)
);
