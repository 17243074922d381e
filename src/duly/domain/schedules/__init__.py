"""Schedules: options, planning, and the effect of edits."""
