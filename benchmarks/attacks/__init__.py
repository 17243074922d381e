"""How a server under attack serves others."""
