-- name: declare
update duly.schedules set program = :program, place = :place, left_at = null
where namespace = :namespace and name = :name;

-- name: undeclared
-- The schedules of a program that are not among these and are not known to have left its code.
select name, place from duly.schedules
where namespace = :namespace and program is not null and program = :program and left_at is null
  and name <> all(:declared::text[])
order by name;

-- name: leave
-- Unless it was declared elsewhere meanwhile.
update duly.schedules set left_at = coalesce(:now::timestamptz, now())
where namespace = :namespace and name = any(:name::text[]) and program = :program
  and left_at is null;

-- name: orphans
-- Schedules that left the code of their program, unless a live worker still declares them.
select s.name, s.program, s.place, s.left_at, t.name as target, p.made_at as next_at
from duly.schedules s join duly.progress p on p.schedule = s.id
join duly.targets t on t.id = s.target
where s.namespace = :namespace and s.program is not null and s.left_at is not null
  and s.name > :after and s.program = coalesce(:program::text, s.program)
  and s.name = coalesce(:name::text, s.name)
  and s.name not in (
      select d.name from duly.workers w, jsonb_array_elements_text(w.schedules) as d(name)
      where w.namespace = :namespace and w.ended_at is null
        and w.beat_at + w.lease * interval '1 second' >= coalesce(:now::timestamptz, now()))
order by s.name limit :limit;
