"""Which targets there are, and which of them may be called now."""
