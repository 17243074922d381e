"""Commands about deliveries."""
