"""Webhooks: one request, guarded and timed."""
