-- name: lanes
-- Running deliveries with their lanes. A run of a stream is settled in batches, so the lane may
-- still refer to an earlier delivery of the run: only its token counts.
duly.running r
left join duly.deliveries d on d.id = r.delivery
left join duly.agenda a on a.lane = coalesce(d.lane, d.number) and a.token is not null

-- name: ask
insert into duly.running (delivery, asked_at, asked_by)
select d.id, :now, :actor
from duly.deliveries d
join duly.agenda a on a.lane = coalesce(d.lane, d.number) and a.delivery = d.number
where d.id = :id and d.namespace = :namespace and d.state = 'pending' and a.token is not null
on conflict (delivery) do update
set asked_by = iif(asked_at is null, excluded.asked_by, asked_by),
    asked_at = coalesce(asked_at, excluded.asked_at)
returning delivery, asked_at = :now as is_new;

-- name: asked
select delivery from duly.running
where delivery in (select value from json_each(:ids)) and asked_at is not null;

-- name: report
-- Runs once for each.
insert into duly.running (delivery, token, progress, note, reported_at, overran_at)
select :delivery, :token, :progress, :note, :reported_at, :overran_at
from duly.deliveries d
join duly.agenda a on a.lane = coalesce(d.lane, d.number) and a.token = :token
where d.id = :delivery and d.state = 'pending'
on conflict (delivery) do update
set token = excluded.token, progress = excluded.progress, note = excluded.note,
    reported_at = excluded.reported_at, overran_at = excluded.overran_at;

-- name: look
select r.delivery, d.namespace, a.token as held, r.asked_by,
       r.asked_at is not null as is_asked,
       d.id is null or d.state <> 'pending' as is_over,
       r.token is not a.token as is_stale
from {lanes}
where (r.asked_at is not null or d.id is null or d.state <> 'pending' or r.token is not a.token)
  and (:served is null or d.namespace in (select value from json_each(:served)) or d.id is null)
order by r.asked_at is null, r.asked_at limit :limit;

-- name: clear
delete from duly.running as r
where not exists (
        select 1 from duly.deliveries d where d.id = r.delivery and d.state = 'pending')
   or (r.asked_at is null and not exists (
        select 1 from duly.deliveries d join duly.agenda a on a.lane = coalesce(d.lane, d.number)
        where d.id = r.delivery and a.token = r.token));

-- name: reported
select r.delivery as id, t.name as target, r.progress, r.note, r.reported_at as at
from {lanes}
join duly.targets t on t.id = d.target
where d.namespace = :namespace and d.state = 'pending' and r.token = a.token
  and r.reported_at is not null
order by r.reported_at desc limit :limit;
