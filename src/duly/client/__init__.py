"""Client: the resources of an App over HTTP, and the connections below it."""
