"""Where webhooks go: endpoints, their signatures, and when they may be called."""
