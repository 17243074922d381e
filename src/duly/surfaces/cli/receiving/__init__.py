"""Commands for those who receive webhooks."""
