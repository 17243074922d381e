"""The greetings context: it knows users only by the events that they publish."""
