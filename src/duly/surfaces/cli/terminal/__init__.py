"""Shared parts of the commands: flags, tables, confirmation, exit codes."""
