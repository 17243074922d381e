"""The recovery of dead letters: by policies, and by generations of a deployment."""
