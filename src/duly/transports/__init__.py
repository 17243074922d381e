"""Everything that leaves the building: Python handlers, and later webhooks and brokers."""
