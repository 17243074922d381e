-- name: declare
update duly.schedules set program = :program, place = :place, left_at = null
where namespace = :namespace and name = :name;

-- name: undeclared
-- The schedules of a program that are not among these and are not known to have left its code.
select name, place from duly.schedules
where namespace = :namespace and program is not null and program = :program and left_at is null
  and name not in (select value from json_each(:declared))
order by name;

-- name: leave
-- Runs once for each, unless it was declared elsewhere meanwhile.
update duly.schedules set left_at = :now
where namespace = :namespace and name = :name and program = :program and left_at is null;

-- name: orphans
-- Schedules that left the code of their program, unless a live worker still declares them.
select s.name, s.program, s.place, s.left_at, t.name as target, p.made_at as next_at
from duly.schedules s join duly.progress p on p.schedule = s.id
join duly.targets t on t.id = s.target
where s.namespace = :namespace and s.program is not null and s.left_at is not null
  and s.name > :after and s.program = coalesce(:program, s.program)
  and s.name = coalesce(:name, s.name)
  and s.name not in (
      select d.value from duly.workers w join json_each(w.schedules) d
      where w.namespace = :namespace and w.ended_at is null
        and w.beat_at + cast(w.lease * 1000000 as integer) >= :now)
order by s.name limit :limit;
