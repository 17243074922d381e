"""Everything that knows SQL: one set of statements in two dialects, and what runs them."""
