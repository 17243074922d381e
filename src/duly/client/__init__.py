"""A server's books, asked over HTTP with the methods that an App has for its own."""
