-- The namespaces that a worker works for, with * for all; null in rows of versions that had only their own.
alter table duly.workers add column namespaces text;
