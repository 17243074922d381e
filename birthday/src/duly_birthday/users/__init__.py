"""The users context. It knows nothing of schedules, greetings or duly."""
