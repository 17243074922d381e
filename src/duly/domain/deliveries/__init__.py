"""Deliveries: states, attempts, outcomes, retries and payloads."""
