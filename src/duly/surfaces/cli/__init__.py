"""The command line: data to stdout, messages to stderr, and the result as exit code."""
