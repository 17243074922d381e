"""How deliveries reach their targets: Python handlers, webhooks, and counts in Redis."""
