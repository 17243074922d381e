-- The closed days of a namespace, by name: weekdays, and dates with labels, as JSON.
create table duly.calendars (
    namespace  text not null,
    name       text not null,
    days       text not null,
    version    integer not null default 1,
    created_at integer not null,
    updated_at integer not null,
    primary key (namespace, name)
);

-- The calendar that the rule of a schedule names, if any.
alter table duly.schedules add column calendar text;
create index duly.schedules_calendar on duly.schedules (namespace, calendar, name)
    where calendar is not null;
