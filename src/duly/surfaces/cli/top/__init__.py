"""`duly top`: the dashboard at a terminal."""
