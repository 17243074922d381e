"""Everything that repeats: claiming, running, settling, recovering, keeping the house."""
