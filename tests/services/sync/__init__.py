"""Synchronous code: everything under `.sync`."""
