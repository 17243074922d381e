"""Schedules: what a caller sets, what is due, and what an edit means."""
