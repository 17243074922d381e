-- Alerts: one row from its raising to its clearing, so that of many who see the trouble one raises
-- it. seen_at is when it was last seen, told how much of it the alert webhook was given.
create table duly.alerts (
    id         bigint generated always as identity primary key,
    namespace  text not null,
    kind       text not null,
    subject    text not null,
    detail     text not null,
    raised_at  timestamptz not null,
    seen_at    timestamptz not null,
    cleared_at timestamptz,
    told       text not null default 'nothing' check (told in ('nothing', 'raised', 'cleared'))
);

create unique index alerts_raised on duly.alerts (namespace, kind, subject) where cleared_at is null;
create index alerts_namespace on duly.alerts (namespace, id);
create index alerts_untold on duly.alerts (namespace, id) where told <> 'cleared';
