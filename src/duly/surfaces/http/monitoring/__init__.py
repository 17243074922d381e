"""Health, metrics, statistics and live events."""
