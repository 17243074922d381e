-- What handlers did in part: rows are added, and leave with their delivery.
create table duly.steps (
    delivery text not null,
    name     text not null,
    attempt  integer not null,
    done_at  integer not null,
    result   text,
    primary key (delivery, name)
) without rowid;
