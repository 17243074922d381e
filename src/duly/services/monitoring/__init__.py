"""Status, statistics, alerts and live events."""
