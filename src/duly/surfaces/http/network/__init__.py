"""The HTTP server: connections and their limits."""
