"""The synchronous forms of all coroutines of an App, a Client and a handler."""
