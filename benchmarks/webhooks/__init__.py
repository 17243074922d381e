"""Webhooks on loopback: how fast, how well apart, how evenly paced."""
