"""`duly top`."""
