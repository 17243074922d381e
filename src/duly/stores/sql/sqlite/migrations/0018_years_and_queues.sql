-- The moment of a year that had fallen due before an edit moved it on: an edit back restores it.
alter table duly.progress add column missed_at integer;

-- The deliveries of a stream that are not in its line.
create index duly.deliveries_apart on duly.deliveries
    (namespace, stream, coalesce(position, 9223372036854775807), id)
    where stream is not null and lane is null;

-- Schedules that were removed: their deliveries are still found by their names.
create table duly.former_schedules (
    number    integer primary key,
    namespace text not null,
    name      text not null
);

create index duly.former_schedules_name on duly.former_schedules (namespace, name, number);

insert into duly.former_schedules (number, namespace, name)
select d.schedule, min(d.namespace), min(d.occasion ->> 'schedule')
from duly.deliveries d
where d.schedule is not null and d.occasion is not null
  and not exists (select 1 from duly.schedules s where s.id = d.schedule)
group by d.schedule;
