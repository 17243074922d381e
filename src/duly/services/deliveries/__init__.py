"""Deliveries: accepted, listed, and taken part in."""
