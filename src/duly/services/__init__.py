"""The services of an App: they check their arguments and call the store's ports."""
