-- Deliveries with a fair key or a limit key. turn is 'fair:' or 'limit:' and the key. Their lanes
-- have the negative number of their target, so that claims of other lanes never read them; they are
-- claimed key by key (turns.sql). No index has a column that a claim sets.
alter table duly.deliveries add column turn text collate "C";
alter table duly.agenda add column turn text collate "C";
create index agenda_turn on duly.agenda (target, priority, turn, due_at) where turn is not null;

-- What the limits of a key need. lanes and tokens are those of the last claims: a lane counts as in
-- flight only while it is held under its token, so that nothing has to be counted down. A claim
-- adds one to version, and applies only if version is as it was when the claim was decided.
create table duly.limit_keys (
    target   integer not null,
    turn     text collate "C" not null,
    version  bigint not null,
    lanes    uuid[] not null,
    tokens   bigint[] not null,
    paced_at timestamptz,
    primary key (target, turn)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

drop view duly.booked;

create view duly.booked as
select d.id, d.namespace, t.name as target, d.priority, d.attempt, d.due_at, d.accepted_at,
       d.started_at, d.finished_at, d.dead_at, d.expires_at, coalesce(d.key, d.unique_key) as key,
       case when d.unique_key is not null then 'pending' end as "unique",
       coalesce(d.replaced, 0) as replaced, d.replaced_at, d.address, d.turn, d.stream, d.position,
       d.schedule, d.occasion, d.tags, d.retry, d.reason, d.error, d.fingerprint, d.payload,
       case when a.halted is null and (d.unique_key is null or a.due_at < '9999-12-31Z') then a.due_at
       end as next_at, a.claimed_at,
       case when d.state = 'dead' then d.crashes else a.crashes end as crashes,
       coalesce(a.token, d.token) as token,
       case when a.token is not null then 'processing' else d.state end as state,
       case when r.token = a.token then r.progress end as progress,
       case when r.token = a.token then r.note end as progress_note,
       case when r.token = a.token then r.reported_at end as progress_at,
       case when r.token = a.token then r.overran_at end as overran_at,
       case when d.state = 'pending' then r.asked_at end as cancel_asked_at,
       nullif(d.disposition, 'left') as disposition, d.revive_at,
       coalesce(d.revivals, 0) as revivals, d.generation, d.batch,
       case when d.disposition in ('held', 'given_up') then (
           select h.error from duly.attempts h
           where h.delivery = d.id and h.outcome = d.disposition order by h.finished_at desc limit 1
       ) end as disposition_note
from duly.deliveries d
join duly.targets t on t.id = d.target
left join duly.agenda a on a.lane = coalesce(d.lane, d.id) and a.delivery = d.id
left join duly.running r on r.delivery = d.id;

-- A delivery that is accepted in a caller's transaction may have a unique key or a turn, or be a member
-- of a batch, which then stays open until the commit.
do $do$
declare
    body text := pg_get_functiondef('duly.accept(json)'::regprocedure);
    after text;
    change text[];
    changes constant text[] := array[
        ['    known record;', '    known record;
    closed boolean;'],
        ['on_failure text', 'on_failure text, batch uuid, turn text'],
        ['    moment := coalesce(r.as_of, now());', '    if r.batch is not null then
        select b.closed_at is not null into closed from duly.batches b
        where b.id = r.batch and b.namespace = r.namespace for share;
        if closed is distinct from false and not exists (
            select from duly.deliveries d
            where d.id = r.id or (d.namespace = r.namespace and d.key = r.key)) then
            return json_build_object(''refused'',
                case when closed then ''closed_batch'' else ''unknown_batch'' end);
        end if;
    end if;
    moment := coalesce(r.as_of, now());'],
        ['    if r.stream is not null then', '    if request ->> ''unique_key'' is not null then
        return duly.accept_unique(request, number, moment, r.due_at);
    end if;
    if r.stream is not null then'],
        ['on_failure, lane, position', 'on_failure, lane, position, batch, turn'],
        ['            line.counter)
    on conflict', '            line.counter, r.batch, r.turn)
    on conflict'],
        ['r.address) as is_same', 'r.address) as is_same,
               r.batch is null or d.batch is not distinct from r.batch as is_member'],
        ['when not known.is_same then ''key''', 'when not known.is_same then ''key''
                when not known.is_member then ''not_member'''],
        ['position, halted, halted_at)', 'position, halted, halted_at, turn)'],
        ['r.id), r.id, number, r.priority', 'r.id), r.id,
            case when r.turn is null then number else -number end, r.priority'],
        ['line.paused_at)
    on conflict (lane)', 'line.paused_at, r.turn)
    on conflict (lane)']
    ];
begin
    foreach change slice 1 in array changes loop
        after := replace(body, change[1], change[2]);
        assert after <> body, 'duly.accept lacks: ' || change[1];
        body := after;
    end loop;
    execute body;
end $do$;
