-- The moment of a year that had fallen due before an edit moved it on: an edit back restores it.
alter table duly.progress add column missed_at timestamptz;

-- As it was, and names of streams that belong to schedules are refused.
create or replace function duly.check_text(field text, given text, most integer)
returns void language plpgsql as $$
begin
    if octet_length(given) not between 1 and most then
        perform duly.refuse(field, format('it has %s bytes', octet_length(given)),
                            format('Give 1 to %s.', most));
    elsif given ~ '[\u0001-\u001f\u007f-\u00a0\u00ad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]' then
        perform duly.refuse(field, 'it holds characters that cannot be printed', 'Remove them.');
    elsif field = 'stream' and starts_with(given, 'duly:schedule:') then
        perform duly.refuse(field, 'names that begin with duly:schedule: belong to schedules',
                            'Take another.');
    end if;
end $$;

-- The deliveries of a stream that are not in its line.
create index deliveries_apart on duly.deliveries
    (namespace, stream, coalesce(position, 9223372036854775807), id)
    where stream is not null and lane is null;

-- Schedules that were removed: their deliveries are still found by their names.
create table duly.former_schedules (
    number    bigint primary key,
    namespace text not null,
    name      text not null
);

create index former_schedules_name on duly.former_schedules (namespace, name, number);

insert into duly.former_schedules (number, namespace, name)
select distinct on (d.schedule) d.schedule, d.namespace, d.occasion::json ->> 'schedule'
from duly.deliveries d
where d.schedule is not null and d.occasion is not null
  and not exists (select from duly.schedules s where s.id = d.schedule);
