-- Deliveries that are accepted in somebody else's transaction. `duly.deliver` is for everyone who can
-- speak SQL; `duly.accept` is what it and the Python drivers come to. The rules are those of the
-- statements deliveries.accept and streams.accept.

-- A version 7 UUID, as the ids that are made in Python.
create function duly.new_id() returns uuid language sql volatile as $$
    select encode(set_bit(set_bit(overlay(
        uuid_send(gen_random_uuid())
        placing substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
        from 1 for 6
    ), 52, 1), 53, 1), 'hex')::uuid
$$;

-- The number of a target, made if it may be new; null if nobody has it.
create function duly.target_number(in_namespace text, wanted text, may_be_new boolean)
returns integer language plpgsql as $$
declare
    found_id integer;
begin
    if wanted like 'endpoint:%' then
        select e.target into found_id from duly.endpoints e
        where e.namespace = in_namespace and e.name = substr(wanted, length('endpoint:') + 1);
        return found_id;
    end if;
    select t.id into found_id from duly.targets t
    where t.namespace = in_namespace and t.name = wanted;
    if found_id is null and may_be_new then
        insert into duly.targets (namespace, name) values (in_namespace, wanted)
        on conflict do nothing;
        select t.id into found_id from duly.targets t
        where t.namespace = in_namespace and t.name = wanted;
    end if;
    return found_id;
end $$;

-- Accepts one checked request. It never raises for what the caller may do otherwise, since that would
-- cost the caller its transaction: it answers what was refused. Plans that were made while the tables
-- were small have to be right later, too.
create function duly.accept(request json) returns json language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    r record;
    number integer;
    line duly.streams;
    moment timestamptz;
    known record;
begin
    select * into r from json_to_record(request) as t(
        id uuid, namespace text, target text, may_be_new boolean, address text, payload text,
        due_at timestamptz, after double precision, as_of timestamptz, key text,
        priority smallint, expires_at timestamptz, tags jsonb, retry text, stream text,
        on_failure text);
    number := duly.target_number(r.namespace, r.target, r.may_be_new);
    if number is null then
        return json_build_object('refused', 'target', 'known', (
            select coalesce(json_agg(name order by name), '[]') from (
                select name from duly.targets t
                where t.namespace = r.namespace and t.name !~ '^(https?://|endpoint:)'
                order by name limit 50) t));
    end if;
    moment := coalesce(r.as_of, now());
    r.due_at := coalesce(r.due_at, moment + coalesce(r.after, 0) * interval '1 second');
    if r.stream is not null then
        -- Held until the commit, so that positions are in the order of commits.
        insert into duly.streams as s (namespace, name, counter, used_at)
        values (r.namespace, r.stream, 1, moment)
        on conflict (namespace, name) do update
        set counter = s.counter + 1, used_at = excluded.used_at
        returning s.* into line;
    end if;
    insert into duly.deliveries
        (id, target, priority, namespace, key, address, due_at, accepted_at, expires_at, tags,
         retry, payload, stream, on_failure, lane, position)
    values (r.id, number, r.priority, r.namespace, r.key, r.address, r.due_at, moment, r.expires_at,
            r.tags, r.retry, convert_to(r.payload, 'UTF8'), r.stream, r.on_failure, line.lane,
            line.counter)
    on conflict do nothing;
    if not found then
        select d.id, d.due_at, (d.target = number and d.payload = convert_to(r.payload, 'UTF8')
               and d.address is not distinct from r.address) as is_same
        into strict known
        from duly.deliveries d where d.namespace = r.namespace and d.key = r.key;
        return json_build_object('refused', case when not known.is_same then 'key' end,
            'id', known.id, 'due_at', known.due_at at time zone 'UTC');
    end if;
    insert into duly.agenda (lane, delivery, target, priority, due_at, position, halted, halted_at)
    values (coalesce(line.lane, r.id), r.id, number, r.priority,
            case when line.paused_at is null then r.due_at else '9999-12-31Z' end,
            line.counter, case when line.paused_at is not null then 'paused' end, line.paused_at)
    on conflict (lane) do nothing;
    if r.due_at <= moment + interval '1 minute'
       and coalesce(current_setting('duly.notify', true), '') <> 'off' then
        perform pg_notify('duly', r.namespace);
    end if;
    return json_build_object('id', r.id, 'due_at', r.due_at at time zone 'UTC');
end $$;

create function duly.refuse(field text, problem text, what_to_do text)
returns void language plpgsql as $$
begin
    raise exception '%: %', field, problem
        using errcode = 'invalid_parameter_value', hint = what_to_do;
end $$;

create function duly.check_text(field text, given text, most integer)
returns void language plpgsql as $$
begin
    if octet_length(given) not between 1 and most then
        perform duly.refuse(field, format('it has %s bytes', octet_length(given)),
                            format('Give 1 to %s.', most));
    elsif given ~ '[\u0001-\u001f\u007f-\u00a0\u00ad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]' then
        perform duly.refuse(field, 'it holds characters that cannot be printed', 'Remove them.');
    end if;
end $$;

create function duly.check_moment(field text, given timestamptz)
returns void language plpgsql as $$
begin
    if given < '1970-01-01Z' or given >= '9000-01-01Z' then
        perform duly.refuse(field, format('%s is not between 1970 and 9000', given),
                            'Give a moment in between.');
    end if;
end $$;

-- Scheme, host and port of a URL, which is checked here.
create function duly.origin_of(url text) returns text language plpgsql as $$
declare
    parts text[] := regexp_match(url, '^(https?)://([^/?#]*)([^#]*)$', 'i');
    host text[] := regexp_match(parts[2], '^(\[[0-9a-f:.]+\]|[^]:[]+)(:([0-9]{1,5})?)?$', 'i');
    port integer := host[3];
begin
    if length(url) > 2000 then
        perform duly.refuse('target', format('%s characters are too long for a URL', length(url)),
                            'Give at most 2000.');
    elsif url !~ '^[!-~]+$' then
        perform duly.refuse('target', 'it has characters that must be escaped in a URL',
                            'Escape them with %.');
    elsif parts is null then
        perform duly.refuse('target', 'the URL cannot be read',
                            'Give http:// or https://, a host, and no fragment (#).');
    elsif parts[2] ~ '@' then
        perform duly.refuse('target', 'the URL carries a user or a password',
                            'Make an endpoint with a header instead: duly endpoints add.');
    elsif host is null or parts[2] ~ '[\\%]' or port not between 1 and 65535 then
        perform duly.refuse('target', 'the URL names no host, or not plainly',
                            'Give a name or an address, and a port from 1 to 65535 if any.');
    end if;
    if port = (case lower(parts[1]) when 'https' then 443 else 80 end) then
        port := null;
    end if;
    return lower(parts[1]) || '://' || lower(host[1]) || coalesce(':' || port, '');
end $$;

create function duly.check_payload(given text) returns void language plpgsql as $$
declare
    brackets text;
    depth integer := 0;
begin
    if octet_length(given) > 262144 then
        perform duly.refuse('payload',
            format('%s bytes are more than the 262144 allowed', octet_length(given)),
            'Store the large part elsewhere and deliver a reference to it.');
    end if;
    -- Counting brackets is nearly always enough; only a suspicious body is walked.
    if octet_length(given) - octet_length(translate(given, '[{', '')) <= 64 then
        return;
    end if;
    brackets := regexp_replace(given, '"(\\.|[^"\\])*"|[^][{}]', '', 'g');
    while brackets <> '' loop
        -- The innermost pairs, layer by layer.
        brackets := regexp_replace(brackets, '\[\]|\{\}', '', 'g');
        depth := depth + 1;
        if depth > 64 then
            perform duly.refuse('payload', 'it is nested deeper than 64', 'Make it flatter.');
        end if;
    end loop;
end $$;

create function duly.checked_tags(given text[]) returns text[] language plpgsql as $$
declare
    tags text[] := array(
        select tag from unnest(given) with ordinality as t(tag, place)
        group by tag order by min(place));
begin
    perform duly.check_text('tags', coalesce(tag, ''), 100) from unnest(tags) as t(tag);
    if cardinality(tags) > 20 then
        perform duly.refuse('tags', format('%s are more than the 20 allowed', cardinality(tags)),
                            'Give fewer.');
    end if;
    return nullif(tags, '{}');
end $$;

-- Accepts a delivery in the present transaction and returns its id. The target is a handler's name,
-- `endpoint:` and a name, or a URL; the rest is as in App.deliver.
create function duly.deliver(
    target     text,
    payload    jsonb       default 'null',
    at         timestamptz default null,
    after      interval    default null,
    key        text        default null,
    priority   integer     default 5,
    expires_at timestamptz default null,
    tags       text[]      default null,
    stream     text        default null,
    on_failure text        default null,
    namespace  text        default 'default'
) returns uuid language plpgsql as $$
declare
    a_name constant text := '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$';
    is_webhook constant boolean := coalesce(deliver.target ~* '^https?:', false);
    body constant text := coalesce(deliver.payload, 'null')::text;
    answer json;
begin
    if namespace is null or namespace !~ a_name then
        perform duly.refuse('namespace', format('%L is not a name', namespace),
                            'Take letters, digits and _ . : / -, at most 200.');
    elsif not is_webhook and (target is null or target !~ a_name) then
        perform duly.refuse('target', format('%L is not a name', target),
            'Give a handler''s name, endpoint: and a name, or a URL with http:// or https://.');
    elsif at is not null and after is not null then
        perform duly.refuse('at', 'both at and after are given', 'Give one of them.');
    elsif after < '0' or after > '40000 days' or (now() + after) - now() > '36600 days' then
        perform duly.refuse('after', format('%s is not from 0 seconds to 100 years', after),
                            'Give an interval in between, as in interval ''5 minutes''.');
    elsif priority is null or priority not between 1 and 9 then
        perform duly.refuse('priority', format('%s is not from 1 to 9', coalesce(priority::text, 'null')),
                            '9 goes first, 1 last, 5 is usual.');
    elsif on_failure is not null and stream is null then
        perform duly.refuse('on_failure', 'only a delivery in a stream has one', 'Give a stream too.');
    elsif on_failure not in ('block', 'release') then
        perform duly.refuse('on_failure', format('%L is no policy', on_failure),
                            'Give block or release.');
    end if;
    perform duly.check_moment('at', at), duly.check_moment('expires_at', expires_at),
            duly.check_text('key', key, 255), duly.check_text('stream', stream, 255),
            duly.check_payload(body);
    answer := duly.accept(json_build_object(
        'id', duly.new_id(), 'namespace', namespace,
        'target', case when is_webhook then duly.origin_of(target) else target end,
        'may_be_new', is_webhook,
        'address', case when is_webhook then '{"url":' || to_json(target) || '}' end,
        'payload', body, 'due_at', at,
        'after', extract(epoch from (now() + after) - now()),
        'key', key, 'priority', priority, 'expires_at', expires_at,
        'tags', duly.checked_tags(tags), 'stream', stream, 'on_failure', on_failure));
    if answer ->> 'refused' = 'target' and target like 'endpoint:%' then
        raise exception 'target: no endpoint %', quote_literal(substr(target, length('endpoint:') + 1))
            using errcode = 'no_data_found', hint = 'duly endpoints list shows what there is.';
    elsif answer ->> 'refused' = 'target' then
        perform duly.refuse('target', format('no handler %L is known', target), format(
            'Start the worker that has it: it makes its handlers known. Known are: %s.',
            coalesce((select string_agg(name, ', ') from json_array_elements_text(answer -> 'known') as t(name)),
                     'none')));
    elsif answer ->> 'refused' = 'key' then
        raise exception 'key: % already belongs to delivery %, which has another target or payload',
            quote_literal(key), answer ->> 'id'
            using errcode = 'unique_violation', hint = 'Take another key.';
    end if;
    return answer ->> 'id';
end $$;

-- The inbox: which messages a consumer has handled, and what came of the first time.
create table duly.inbox (
    namespace   text not null,
    consumer    text not null,
    message_id  text not null,
    result      text,
    received_at timestamptz not null,
    primary key (namespace, consumer, message_id)
);

create index inbox_received on duly.inbox (namespace, received_at);
