"""SQLite: one file with one writer."""
