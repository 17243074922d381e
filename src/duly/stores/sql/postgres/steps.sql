-- name: load
select name, attempt, done_at, result from duly.steps
where delivery = :delivery::uuid order by done_at, name;

-- name: record
-- Only if the token holds the lane; reclaiming the lane waits until this is committed. A step that
-- exists already is not changed, and is returned.
with given as materialized (
    select * from unnest(
        :lane::uuid[], :token::bigint[], :delivery::uuid[], :name::text[], :attempt::smallint[],
        :done_at::timestamptz[], :result::text[]
    ) as t(lane, token, delivery, name, attempt, done_at, result)
), held as materialized (
    select g.* from given g cross join lateral (
        select from duly.agenda a where a.lane = g.lane and a.token = g.token for share
    ) a
), added as (
    insert into duly.steps (delivery, name, attempt, done_at, result)
    select delivery, name, attempt, done_at, result from held
    on conflict do nothing
    returning name, attempt, done_at, result
)
select name, attempt, done_at, result from added
union all
select s.name, s.attempt, s.done_at, s.result from held h cross join lateral (
    select * from duly.steps s where s.delivery = h.delivery and s.name = h.name offset 0
) s;
