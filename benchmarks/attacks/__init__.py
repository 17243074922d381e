"""What a server does for others while somebody attacks it."""
