"""Webhooks and endpoints: addresses, signatures, limits and circuits."""
