"""Commands to run a server."""
