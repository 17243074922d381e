-- Sessions of browsers: each has the rights of a key, and ends with it.
create table duly.sessions (
    id         text primary key,
    key        text not null,
    hash       bytea not null,
    created_at timestamptz not null,
    expires_at timestamptz not null
);
create index sessions_expiry on duly.sessions (expires_at);
