"""The webhook transport."""
