"""Deliveries: accepted, listed, cancelled and retried."""
