create table birthday.users (
    id            uuid primary key,
    first_name    text not null,
    last_name     text not null,
    date_of_birth date not null,
    timezone      text not null,
    feb29         text,
    created_at    timestamptz not null,
    updated_at    timestamptz not null,
    version       integer not null
);
