"""Keys, the audit trail, and requests that carry a key of their own."""
