"""Claiming due work for free slots."""
