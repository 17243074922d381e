"""Schedules and what is planned from them."""
