"""Deliveries in order: what holds a stream up, and what can be done."""
