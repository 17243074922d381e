"""The targets, and which of them may be called now."""
