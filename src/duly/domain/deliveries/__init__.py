"""One delivery: its states, its attempts, and what becomes of each."""
