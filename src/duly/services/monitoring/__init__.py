"""Status, and what happens now."""
