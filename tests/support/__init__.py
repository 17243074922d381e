"""What the tests stand on: real servers and the tools to break them."""
