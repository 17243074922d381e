-- The limits that code declares for its handlers: for the target, and for each key of it. A row
-- whose limits are all null says that the code declares none any more.
create table duly.limits (
    target        integer primary key,
    rate          real,
    in_flight     integer,
    key_name      text,
    key_rate      real,
    key_in_flight integer,
    declared_at   integer not null
);

-- The limits for each key of an endpoint.
alter table duly.endpoints add column key_name text;
alter table duly.endpoints add column key_rate real;
alter table duly.endpoints add column key_in_flight integer;

drop view duly.endpoint_list;
create view duly.endpoint_list as
select e.*, g.failures, g.first_failed_at, g.opened_at, g.probe_at, g.probing, g.probes, g.paced_at
from duly.endpoints e left join duly.gates g on g.target = e.target;
