-- Since when a worker claims nothing, so that a suspect can run alone on it: one of a namespace at a time.
alter table duly.workers add column aside_at timestamptz;
create unique index workers_aside on duly.workers (namespace)
    where aside_at is not null and ended_at is null;

-- What was counted against deliveries when their workers died, by worker: one that comes back takes it back.
create index attempts_crashed on duly.attempts (token)
    where started_at is null and outcome in ('reclaimed', 'retry');

-- The head of a stream is due when it expires at the latest, or it would hold up its stream in vain.
do $$
declare
    before text := pg_get_functiondef('duly.accept(json)'::regprocedure);
    after text := replace(before, 'then r.due_at else', 'then least(r.due_at, r.expires_at) else');
begin
    assert after <> before, 'duly.accept is not the one that 0007 made';
    execute after;
end $$;
