"""Streams: deliveries in order, failure policies and operator actions."""
