"""The clock of an SQLite store: this machine's, with steps ignored at first."""

from __future__ import annotations

from datetime import datetime, timedelta

from duly.ports import Clock

NOTICED = timedelta(seconds=2)
BELIEVED_AFTER_SECONDS = 10.0


class Steady:
    """The wall clock, but a step of it is accepted only after it has lasted ten seconds.

    If the clock is wrong for a moment, a delivery that expires is lost for good, while one that is
    due only waits. So for ten seconds after a step, the monotonic clock continues the old time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Several threads read this; the tuple is replaced as a whole.
        self._reference = (clock.now(), clock.monotonic())

    def now(self) -> datetime:
        """The current time in UTC."""
        wall, monotonic = self._clock.now(), self._clock.monotonic()
        wall_then, monotonic_then = self._reference
        expected = wall_then + timedelta(seconds=monotonic - monotonic_then)
        is_step = abs(wall - expected) > NOTICED
        if is_step and monotonic - monotonic_then < BELIEVED_AFTER_SECONDS:
            return expected
        self._reference = (wall, monotonic)
        return wall
