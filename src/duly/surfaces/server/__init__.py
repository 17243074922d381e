"""Running an App as a server, in one process or several."""
