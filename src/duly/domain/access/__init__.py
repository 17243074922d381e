"""Who may call: keys and their rates."""
