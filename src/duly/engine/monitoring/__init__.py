"""Loops that watch and count."""
