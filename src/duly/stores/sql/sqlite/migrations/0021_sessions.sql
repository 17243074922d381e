-- Sessions of browsers: each has the rights of a key, and ends with it.
create table duly.sessions (
    id         text primary key,
    key        text not null,
    hash       blob not null,
    created_at integer not null,
    expires_at integer not null
);
create index duly.sessions_expiry on duly.sessions (expires_at);
