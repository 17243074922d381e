"""Shared parts of the routes: bodies, pages, problems, ETags."""
