-- Who may enter by the HTTP port. Of a token only its hash is kept.
create table duly.keys (
    id           text primary key,
    namespace    text not null,
    name         text not null,
    scope        text not null check (scope in ('read', 'operate', 'admin')),
    hash         blob not null,
    created_at   integer not null,
    expires_at   integer,
    last_used_at integer,
    revoked_at   integer
);

create index duly.keys_namespace on duly.keys (namespace, id);
