"""The command line: data to stdout, talk to stderr, and an exit code that means something."""
