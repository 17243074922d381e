-- name: load
select name, attempt, done_at, result from duly.steps
where delivery = :delivery order by done_at, name;

-- name: record
-- Only if the token holds the lane. A step that exists already is not changed, and is returned.
insert into duly.steps (delivery, name, attempt, done_at, result)
select :delivery, :name, :attempt, :done_at, :result
where exists (select 1 from duly.agenda where lane = :lane and token = :token)
on conflict do nothing;
select name, attempt, done_at, result from duly.steps
where delivery = :delivery and name = :name
  and exists (select 1 from duly.agenda where lane = :lane and token = :token);
