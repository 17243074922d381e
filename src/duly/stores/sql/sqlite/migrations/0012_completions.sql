-- What it means that a held lane is done, row by row: the ledger is written, the history keeps what
-- was answered, and the lane goes.
create view duly.completions (lane, delivery, token, started_at, finished_at, answer) as
select null, null, null, null, null, null where false;

create trigger duly.complete instead of insert on duly.completions begin
    update duly.deliveries
    set state = 'completed', attempt = attempt + 1, token = new.token,
        started_at = new.started_at, finished_at = new.finished_at, reason = null, error = null
    where number = new.delivery;
    insert into duly.attempts (delivery, attempt, outcome, token, started_at, finished_at, answer)
    select id, attempt, 'completed', token, started_at, finished_at, new.answer
    from duly.deliveries where new.answer is not null and number = new.delivery;
    delete from duly.agenda where lane = new.lane;
end;
