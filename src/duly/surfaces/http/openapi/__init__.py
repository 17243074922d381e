"""The API described for people and generators of clients."""
