-- name: lanes
-- Running deliveries with their lanes. A run of a stream is settled in batches, so the lane may
-- still refer to an earlier delivery of the run: only its token counts.
duly.running r
left join duly.deliveries d on d.id = r.delivery
left join duly.agenda a on a.lane = coalesce(d.lane, d.id) and a.token is not null

-- name: ask
insert into duly.running (delivery, asked_at, asked_by)
select d.id, coalesce(:now::timestamptz, now()), :actor::text
from duly.deliveries d
join duly.agenda a on a.lane = coalesce(d.lane, d.id) and a.delivery = d.id
where d.id = :id::uuid and d.namespace = :namespace and d.state = 'pending' and a.token is not null
on conflict (delivery) do update
set asked_at = coalesce(running.asked_at, excluded.asked_at),
    asked_by = case when running.asked_at is null then excluded.asked_by else running.asked_by end
returning delivery::text as delivery, asked_at = coalesce(:now::timestamptz, now()) as is_new;

-- name: asked
select delivery::text as delivery from duly.running
where delivery = any(:ids::uuid[]) and asked_at is not null;

-- name: report
insert into duly.running (delivery, token, progress, note, reported_at, overran_at)
select o.delivery, o.token, o.progress, o.note, o.reported_at, o.overran_at
from unnest(
    :delivery::uuid[], :token::bigint[], :progress::double precision[], :note::text[],
    :reported_at::timestamptz[], :overran_at::timestamptz[]
) as o(delivery, token, progress, note, reported_at, overran_at)
join duly.deliveries d on d.id = o.delivery and d.state = 'pending'
join duly.agenda a on a.lane = coalesce(d.lane, d.id) and a.token = o.token
on conflict (delivery) do update
set token = excluded.token, progress = excluded.progress, note = excluded.note,
    reported_at = excluded.reported_at, overran_at = excluded.overran_at;

-- name: look
select r.delivery::text as delivery, d.namespace, a.token as held, r.asked_by,
       r.asked_at is not null as is_asked,
       d.id is null or d.state <> 'pending' as is_over,
       r.token is distinct from a.token as is_stale
from {lanes}
where (r.asked_at is not null or d.id is null or d.state <> 'pending'
       or r.token is distinct from a.token)
  and (:served::text[] is null or d.namespace = any(:served::text[]) or d.id is null)
order by r.asked_at limit :limit;

-- name: clear
-- The conditions are on the row itself: if it was changed meanwhile, they are checked again.
delete from duly.running r
where not exists (
        select from duly.deliveries d where d.id = r.delivery and d.state = 'pending')
   or (r.asked_at is null and not exists (
        select from duly.deliveries d join duly.agenda a on a.lane = coalesce(d.lane, d.id)
        where d.id = r.delivery and a.token = r.token));

-- name: reported
select r.delivery::text as id, t.name as target, r.progress, r.note, r.reported_at as at
from {lanes}
join duly.targets t on t.id = d.target
where d.namespace = :namespace and d.state = 'pending' and r.token = a.token
  and r.reported_at is not null
order by r.reported_at desc limit :limit;
