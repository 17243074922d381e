"""Running what was claimed, until its outcome is stored."""
