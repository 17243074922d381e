"""Loops that count and raise alerts."""
