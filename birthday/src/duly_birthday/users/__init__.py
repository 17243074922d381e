"""The users context: who there is. It knows nothing of schedules, greetings or duly."""
