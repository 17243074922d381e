"""Endpoints, targets, and when they may be called."""
