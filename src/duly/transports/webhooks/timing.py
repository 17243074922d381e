"""Durations of the parts of an exchange; a part that did not happen is left out."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

TIMED: ContextVar[ExchangeTiming | None] = ContextVar("timed", default=None)
"""The timing of the current task's exchange."""


class ExchangeTiming:
    """Durations of the parts of one exchange."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._started = self._last = monotonic()
        self._parts: dict[str, float] = {}

    def mark(self, part: str) -> None:
        """End a part now; it began when the previous part ended."""
        now = self._monotonic()
        # Summed, since a host with several addresses may take several connection attempts.
        self._parts[part] = self._parts.get(part, 0.0) + now - self._last
        self._last = now

    def milliseconds(self) -> dict[str, float]:
        """The duration of each part, and `total`."""
        total = self._monotonic() - self._started
        return {
            part: round(seconds * 1000, 3)
            for part, seconds in (*self._parts.items(), ("total", total))
        }


def mark(part: str) -> None:
    """End a part of the current task's exchange now."""
    timing = TIMED.get()
    if timing is not None:
        timing.mark(part)
