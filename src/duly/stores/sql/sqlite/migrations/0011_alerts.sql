-- Alerts: one row from its raising to its clearing, so that of many who see the trouble one raises
-- it. seen_at is when it was last seen, told how much of it the alert webhook was given.
create table duly.alerts (
    id         integer primary key autoincrement,
    namespace  text not null,
    kind       text not null,
    subject    text not null,
    detail     text not null,
    raised_at  integer not null,
    seen_at    integer not null,
    cleared_at integer,
    told       text not null default 'nothing' check (told in ('nothing', 'raised', 'cleared'))
);

create unique index duly.alerts_raised on duly.alerts (namespace, kind, subject)
    where cleared_at is null;
create index duly.alerts_namespace on duly.alerts (namespace, id);
create index duly.alerts_untold on duly.alerts (namespace, id) where told <> 'cleared';
