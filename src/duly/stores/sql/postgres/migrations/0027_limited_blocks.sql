-- For how many seconds a failed head may block its stream; null: until somebody acts.
alter table duly.streams add column block_for double precision check (block_for > 0);

-- Of a stream's lane: when its failed head stops blocking it. Few lanes have one, and only the loop
-- that ends such blocks reads the index.
alter table duly.agenda add column unblocks_at timestamptz;
create index agenda_unblocks_at on duly.agenda (unblocks_at) where unblocks_at is not null;
