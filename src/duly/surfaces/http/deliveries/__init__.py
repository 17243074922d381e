"""Routes of deliveries."""
