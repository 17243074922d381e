"""Authentication, rate limits, CORS and idempotent requests."""
