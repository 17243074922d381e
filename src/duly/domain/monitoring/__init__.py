"""What is counted and watched: status, statistics and alerts."""
