"""Schedules and their planned occurrences."""
