"""API keys, the audit trail, and requests with an idempotency key."""
