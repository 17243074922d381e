"""Commands about endpoints."""
