"""Routes of endpoints."""
