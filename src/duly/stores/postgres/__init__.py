"""PostgreSQL: its address, its connections, and the sessions on them."""
