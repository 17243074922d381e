"""Streams: their queues, heads and settings."""
