"""What commands share: flags, tables, confirmation, exit codes."""
