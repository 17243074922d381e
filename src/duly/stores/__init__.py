"""Everything that uses SQL: one set of statements in two dialects, and the code that runs them."""
