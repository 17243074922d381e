"""Commands that show the status and statistics."""
