-- Deliveries of which only one with the same key waits at a time. unique_key is null in all others;
-- replaced counts how often a later one took its place, and replaced_at is when that happened last.
alter table duly.deliveries
    add column unique_key text,
    add column replaced integer,
    add column replaced_at timestamptz;
create index deliveries_unique_key on duly.deliveries (namespace, unique_key, id)
    where unique_key is not null;

-- For each target and unique key, the delivery that was the last to wait, and the one that was
-- running when it was added. A claim does not write here: the agenda says which of them a worker
-- holds. A transaction that adds, retries or settles such a delivery locks the row first, then lanes.
create table duly.unique_keys (
    target  integer not null,
    key     text not null,
    waiting uuid,
    running uuid,
    primary key (target, key)
) with (fillfactor = 50);

-- Keys whose row was locked when a delivery was settled: workers look at them again.
create table duly.unsettled_keys (
    target integer not null,
    key    text not null,
    primary key (target, key)
);

-- Locks unique keys and the lanes of theirs that nobody holds, in order, and says how they are. A lane
-- is free, held, or null if there is none; it is shut if it waits for the end of the running one.
-- Each statement sees what was committed before it, so the result is right after a wait.
create function duly.lock_keys(targets integer[], keys text[], as_of timestamptz)
returns table (
    target integer, key text, waiting text, waiting_lane text, is_shut boolean, due_at timestamptz,
    accepted_at timestamptz, waiting_at timestamptz, running text, running_lane text,
    running_at timestamptz, now_at timestamptz
) language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
begin
    insert into duly.unique_keys (target, key)
    select distinct g.target, g.key from unnest(targets, keys) as g(target, key)
    order by g.target, g.key
    on conflict (target, key) do update set key = excluded.key;
    perform a.lane from duly.agenda a
    where a.token is null and a.lane = any(array(
        select unnest(array[u.waiting, u.running]) from unnest(targets, keys) as g(target, key)
        cross join lateral (
            select * from duly.unique_keys u where u.target = g.target and u.key = g.key offset 0
        ) u))
    order by a.lane for update;
    return query
    select u.target, u.key, u.waiting::text,
           case when w.lane is not null then case when w.token is null then 'free' else 'held' end end,
           coalesce(w.due_at >= '9999-12-31Z', false), wd.due_at, wd.accepted_at,
           coalesce(wd.replaced_at, wd.accepted_at), u.running::text,
           case when r.lane is not null then case when r.token is null then 'free' else 'held' end end,
           coalesce(rd.replaced_at, rd.accepted_at), coalesce(as_of, now())
    from (select distinct g.target, g.key from unnest(targets, keys) as g(target, key)) g
    cross join lateral (
        select * from duly.unique_keys u where u.target = g.target and u.key = g.key offset 0
    ) u
    left join lateral (select * from duly.agenda a where a.lane = u.waiting offset 0) w on true
    left join lateral (select * from duly.deliveries d where d.id = u.waiting offset 0) wd on true
    left join lateral (select * from duly.agenda a where a.lane = u.running offset 0) r on true
    left join lateral (select * from duly.deliveries d where d.id = u.running offset 0) rd on true;
end $$;

-- Locks those of the keys that are free, or become so soon: accepting a delivery takes milliseconds,
-- but a caller's transaction may take long, and a settlement must not wait for that.
create function duly.try_lock_keys(targets integer[], keys text[])
returns table (target integer, key text) language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off set lock_timeout = '300ms' as $$
#variable_conflict use_column
begin
    begin
        perform u.key from (
            select g.target, g.key from unnest(targets, keys) as g(target, key)
            order by g.target, g.key
        ) g
        cross join lateral (
            select u.key from duly.unique_keys u where u.target = g.target and u.key = g.key
            for update
        ) u;
    exception when lock_not_available then
        null;
    end;
    return query
    select u.target, u.key from unnest(targets, keys) as g(target, key)
    cross join lateral (
        select u.target, u.key from duly.unique_keys u where u.target = g.target and u.key = g.key
        for update skip locked
    ) u;
end $$;

-- Gives the delivery that waits the contents of a later one, and if due_at is given its moment. Its
-- attempts were for other contents, so they and its steps do not count any more.
create function duly.replace_waiting(
    which uuid, payload bytea, address text, priority smallint, expires_at timestamptz, tags jsonb,
    retry text, due_at timestamptz, times integer, as_of timestamptz
) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
    insert into duly.attempts (delivery, attempt, outcome, finished_at)
    select d.id, d.attempt, 'replaced', as_of from duly.deliveries d where d.id = which and d.attempt > 0;
    delete from duly.steps s where s.delivery = which;
    update duly.deliveries d
    set payload = replace_waiting.payload, address = replace_waiting.address,
        priority = replace_waiting.priority, expires_at = replace_waiting.expires_at,
        tags = replace_waiting.tags, retry = replace_waiting.retry,
        due_at = coalesce(replace_waiting.due_at, d.due_at), attempt = 0, started_at = null,
        token = null, reason = null, error = null,
        replaced = coalesce(d.replaced, 0) + times, replaced_at = as_of
    where d.id = which;
    -- One that may have crashed its workers still runs alone.
    update duly.agenda a
    set priority = case when a.priority = 0 then 0 else replace_waiting.priority end,
        due_at = case when a.due_at >= '9999-12-31Z' then a.due_at
                 else coalesce(replace_waiting.due_at, a.due_at) end
    where a.lane = which;
end $$;

-- Accepts a delivery with a unique key in the caller's transaction; see duly.accept. The rules are those
-- of Python, in domain/deliveries/unique.py.
create function duly.accept_unique(request json, number integer, moment timestamptz, due timestamptz)
returns json language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    r record;
    k record;
    waits uuid;
    runs uuid;
    known record;
begin
    select * into r from json_to_record(request) as t(
        id uuid, namespace text, address text, payload text, priority smallint,
        expires_at timestamptz, tags jsonb, retry text, unique_key text, on_duplicate text,
        latest double precision);
    select * into k from duly.lock_keys(array[number], array[r.unique_key], moment);
    select d.id, d.due_at into known from duly.deliveries d where d.id = r.id;
    if found then
        return json_build_object('id', known.id, 'due_at', known.due_at at time zone 'UTC');
    end if;
    waits := case when k.waiting_lane = 'free' then k.waiting
             when k.running_lane = 'free' then k.running end;
    runs := case when k.waiting_lane = 'held' then k.waiting
            when k.running_lane = 'held' then k.running end;
    if waits is not null then
        select d.id, d.due_at, d.accepted_at into strict known from duly.deliveries d where d.id = waits;
        if r.on_duplicate = 'postpone' then
            known.due_at := least(due, known.accepted_at + r.latest * interval '1 second');
        end if;
        if r.on_duplicate <> 'keep' then
            perform duly.replace_waiting(
                waits, convert_to(r.payload, 'UTF8'), r.address, r.priority, r.expires_at, r.tags,
                r.retry, case when r.on_duplicate = 'postpone' then known.due_at end, 1, moment);
        end if;
    else
        known.due_at := due;
        waits := r.id;
        insert into duly.deliveries
            (id, target, priority, namespace, unique_key, address, due_at, accepted_at, expires_at,
             tags, retry, payload)
        values (r.id, number, r.priority, r.namespace, r.unique_key, r.address, due, moment,
                r.expires_at, r.tags, r.retry, convert_to(r.payload, 'UTF8'));
        insert into duly.agenda (lane, delivery, target, priority, due_at)
        values (r.id, r.id, number, r.priority,
                case when runs is null then due else '9999-12-31Z' end);
        update duly.unique_keys u set waiting = r.id, running = runs
        where u.target = number and u.key = r.unique_key;
    end if;
    if known.due_at <= moment + interval '1 minute'
       and coalesce(current_setting('duly.notify', true), '') <> 'off' then
        perform pg_notify('duly', r.namespace);
    end if;
    return json_build_object('id', waits, 'due_at', known.due_at at time zone 'UTC');
end $$;
