"""The clock of a store that has none of its own: this machine's, but not its every whim."""

from __future__ import annotations

from datetime import datetime, timedelta

from duly.ports import Clock

NOTICED = timedelta(seconds=2)
BELIEVED_AFTER_SECONDS = 10.0


class Steady:
    """The clock on the wall; a step of it counts only once it has lasted.

    What expires by a clock that is put right again a moment later is lost for good, and what is due
    only waits. So after a step the monotonic clock carries the old time on for ten seconds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Several threads ask; they share one value, which is replaced as a whole.
        self._agreed = (clock.now(), clock.monotonic())

    def now(self) -> datetime:
        """The present moment in UTC."""
        wall, ticked = self._clock.now(), self._clock.monotonic()
        agreed_at, then = self._agreed
        expected = agreed_at + timedelta(seconds=ticked - then)
        is_step = abs(wall - expected) > NOTICED
        if is_step and ticked - then < BELIEVED_AFTER_SECONDS:
            return expected
        self._agreed = (wall, ticked)
        return wall
