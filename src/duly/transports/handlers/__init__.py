"""Python handlers: registered, called, timed."""
