create table birthday_users (
    id            text primary key,
    first_name    text not null,
    last_name     text not null,
    date_of_birth text not null,
    timezone      text not null,
    feb29         text,
    created_at    text not null,
    updated_at    text not null,
    version       integer not null
) strict, without rowid;
