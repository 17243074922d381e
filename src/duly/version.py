"""The version of duly, told once."""

__version__ = "0.1.0"
