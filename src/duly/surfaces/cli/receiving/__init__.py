"""Commands to receive webhooks."""
