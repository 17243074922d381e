"""Commands that export, import and back up a store."""
