"""PostgreSQL: its address, its connections, and what runs on them."""
