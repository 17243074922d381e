"""The version of duly."""

__version__ = "0.1.0"
