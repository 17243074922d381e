"""Commands that write and read files of a store."""
