"""Status, statistics and alerts."""
