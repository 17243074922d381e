"""Deliveries, their attempts and steps, and the transactions they are part of."""
