-- The class of the exception that a handler raised.
alter table duly.attempts add column exception text;
