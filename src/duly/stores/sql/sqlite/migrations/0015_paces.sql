-- How often a key may yet be used, over all servers, and when that was so; null before they told.
alter table duly.keys add column filled real;
alter table duly.keys add column filled_at integer;
