"""The store's clock as this worker knows it; it decides what is due."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from duly.domain.moments import microseconds
from duly.ports import Clock

SLACK = timedelta(milliseconds=100)


class StoreClock:
    """Counts on from the last time sent by the store, with the monotonic clock.

    The system's wall clock may be stepped at any moment, and would expire deliveries too early.
    """

    def __init__(self, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        self._ahead = clock.now().timestamp() - clock.monotonic()
        self.now: Callable[[], datetime] = clock.now if clock.virtual else self._now
        """The current time by the store's clock."""
        self.now_us: Callable[[], int] = self._virtual_us if clock.virtual else self._now_us
        """The same in microseconds since 1970."""

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._ahead + self.monotonic(), UTC)

    def _now_us(self) -> int:
        return int((self._ahead + self.monotonic()) * 1e6)

    def _virtual_us(self) -> int:
        return microseconds(self.now())

    def observe(self, seen_at: datetime, asked_at: float) -> None:
        """Set the clock from an answer of the store to a question asked at this monotonic time.

        The store's time is now between `seen_at` and that plus what the answer took.
        """
        latest = seen_at + timedelta(seconds=self.monotonic() - asked_at)
        now = self.now()
        if now < seen_at:
            self._set(seen_at)
        elif now > latest + SLACK:
            self._set(latest)

    def _set(self, moment: datetime) -> None:
        self._ahead = moment.timestamp() - self.monotonic()
