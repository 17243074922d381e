"""Durations of the parts of an exchange; a part that did not happen is left out."""

from __future__ import annotations

from collections.abc import Callable


class ExchangeTiming:
    """Durations of the parts of one exchange."""

    __slots__ = ("_last", "_monotonic", "_parts", "_started")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._started = self._last = monotonic()
        self._parts: dict[str, float] = {}

    def mark(self, part: str) -> None:
        """End a part now; it began when the previous part ended."""
        now = self._monotonic()
        self._parts[part] = now - self._last
        self._last = now

    def skip(self) -> None:
        """Begin the next part now; what was before counts only in the total."""
        self._last = self._monotonic()

    def milliseconds(self) -> dict[str, float]:
        """The duration of each part, and `total`."""
        total = self._monotonic() - self._started
        return {
            part: round(seconds * 1000, 3)
            for part, seconds in (*self._parts.items(), ("total", total))
        }
