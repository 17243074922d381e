"""Whether the package `mcp` is installed."""

from __future__ import annotations

from importlib.util import find_spec

from duly.errors import BadSetting


def require_extra() -> None:
    """BadSetting if the extra is not installed; it does not import it."""
    if find_spec("mcp") is None:
        raise BadSetting("mcp", "it needs the package mcp: pip install 'duly[mcp]'")
