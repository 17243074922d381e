-- Who may enter by the HTTP port. Of a token only its hash is kept.
create table duly.keys (
    id           text primary key,
    namespace    text not null,
    name         text not null,
    scope        text not null check (scope in ('read', 'operate', 'admin')),
    hash         bytea not null,
    created_at   timestamptz not null,
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz
);

create index keys_namespace on duly.keys (namespace, id);
