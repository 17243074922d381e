-- Dead letters by what their errors have in common, counted without a look at the letters.
create index duly.deliveries_dead_groups on duly.deliveries (namespace, fingerprint, reason, target, dead_at)
    where dead_at is not null;
