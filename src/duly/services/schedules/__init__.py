"""Schedules: declared, listed, paused, resumed, triggered and backfilled."""
