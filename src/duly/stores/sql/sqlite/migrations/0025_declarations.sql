-- Schedules that code declares: the program, and the module and function in it. left_at is when the
-- program started without declaring it any more. All three are null in schedules made otherwise.
alter table duly.schedules add column program text;
alter table duly.schedules add column place text;
alter table duly.schedules add column left_at integer;
create index duly.schedules_declared on duly.schedules (namespace, name) where program is not null;

-- The schedules that the code of a worker declares; null in rows of earlier versions.
alter table duly.workers add column schedules text;
