-- Whether somebody else than who began it went on with it, too.
alter table duly.requests add column shared boolean not null default false;
