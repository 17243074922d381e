"""How long the parts of an exchange took; a part that did not happen is not there."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

TIMED: ContextVar[ExchangeTiming | None] = ContextVar("timed", default=None)
"""The timing of the exchange that the present task makes."""


class ExchangeTiming:
    """Moments since the start of one exchange."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._started = self._last = monotonic()
        self._parts: dict[str, float] = {}

    def mark(self, part: str) -> None:
        """The part has just ended; it began where the one before it did end."""
        now = self._monotonic()
        # Added up, since a host with several addresses may be connected to more than once.
        self._parts[part] = self._parts.get(part, 0.0) + now - self._last
        self._last = now

    def milliseconds(self) -> dict[str, float]:
        """Each part, and all of it."""
        total = self._monotonic() - self._started
        return {
            part: round(seconds * 1000, 3)
            for part, seconds in (*self._parts.items(), ("total", total))
        }


def mark(part: str) -> None:
    """The part of the exchange that the present task makes has just ended."""
    timing = TIMED.get()
    if timing is not None:
        timing.mark(part)
