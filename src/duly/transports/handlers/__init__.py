"""Python handlers: registration, calls and deadlines."""
