"""How long the parts of an exchange took, as the client tells them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from aiohttp import TraceConfig

TIMED: ContextVar[Timing | None] = ContextVar("timed", default=None)
"""The timing of the exchange that the present task makes."""


class Timing:
    """Moments since the start of one exchange."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._started = self._last = monotonic()
        self._parts: dict[str, float] = {}

    def mark(self, part: str) -> None:
        """The part has just ended; it began where the one before it did end."""
        now = self._monotonic()
        self._parts[part] = now - self._last
        self._last = now

    def milliseconds(self) -> dict[str, float]:
        """Each part, and all of it."""
        total = self._monotonic() - self._started
        return {
            part: round(seconds * 1000, 3)
            for part, seconds in (*self._parts.items(), ("total", total))
        }


def tracing() -> TraceConfig:
    """Hooks that mark the parts of whatever exchange the present task makes."""
    config = TraceConfig()

    async def resolved(*_: Any) -> None:
        _mark("dns")

    async def connected(*_: Any) -> None:
        _mark("connect")

    config.on_dns_resolvehost_end.append(resolved)
    config.on_connection_create_end.append(connected)
    return config


def _mark(part: str) -> None:
    timing = TIMED.get()
    if timing is not None:
        timing.mark(part)
