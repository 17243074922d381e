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
