"""Webhooks on loopback: speed, isolation, rate."""
