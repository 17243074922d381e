-- The moment of a year that had fallen due before an edit moved it on: an edit back restores it.
alter table duly.progress add column missed_at integer;
