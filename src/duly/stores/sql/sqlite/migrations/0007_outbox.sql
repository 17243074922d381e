-- On SQLite, whose file has one owner, deliveries are accepted in that owner's transactions only, and
-- there is nothing to make for them.

-- The inbox: which messages a consumer has handled, and what came of the first time.
create table duly.inbox (
    namespace   text not null,
    consumer    text not null,
    message_id  text not null,
    result      text,
    received_at integer not null,
    primary key (namespace, consumer, message_id)
);

create index duly.inbox_received on duly.inbox (namespace, received_at);
