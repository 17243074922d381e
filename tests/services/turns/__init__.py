"""Fair keys and limit keys through an App."""
