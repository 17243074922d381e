"""Commands that show how it goes."""
