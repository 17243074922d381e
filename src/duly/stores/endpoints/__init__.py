"""Endpoints, targets, and their gates."""
