"""Streams: who is at the head, who waits behind."""
