"""Real servers for the tests, and the tools to stop and kill them."""
