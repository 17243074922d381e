"""The port: connections, their limits, and the server that has them."""
