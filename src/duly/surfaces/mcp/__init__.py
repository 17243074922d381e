"""Tools for Model Context Protocol clients; nothing is deleted or discarded through them."""
