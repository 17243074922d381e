"""How many deliveries are late, and how fast they drain."""

from __future__ import annotations

from datetime import timedelta

from duly.ports import Agenda, Clock, LateWork
from duly.records.status import BacklogStatus, draining
from duly.services.monitoring.shared_read import SharedRead

SAMPLE_SECONDS = 1.0
"""The least time between two counts that are compared."""
REST = 50
"""A count is made again after this many times as long as it took, while it can be compared with."""
OLD_SECONDS = 60.0
"""An older count tells nothing about the present rate."""


class Recovering:
    """Compares two counts, which callers share: on a large backlog a count takes long."""

    def __init__(self, agenda: Agenda, clock: Clock, grace: timedelta) -> None:
        self._agenda = agenda
        self._clock = clock
        self._grace = grace
        self._shared = SharedRead(self._compare, clock, rest=0)
        self._found: BacklogStatus | None = None
        self._took, self._fresh_until = 0.0, float("-inf")
        self._counted: tuple[float, LateWork] | None = None

    async def __call__(self) -> BacklogStatus | None:
        """Late deliveries, and their rate since the count before; None if there are none."""
        if self._clock.monotonic() >= self._fresh_until:
            self._found = await self._shared(age=0)
            self._fresh_until = self._clock.monotonic() + min(self._took * REST, OLD_SECONDS / 2)
        return self._found

    async def stop(self) -> None:
        """Give up a count in progress."""
        await self._shared.stop()

    async def _compare(self) -> BacklogStatus | None:
        before = self._counted
        age = 0.0 if before is None else self._clock.monotonic() - before[0]
        if not SAMPLE_SECONDS <= age <= OLD_SECONDS:
            before = await self._count()
            if before is None:
                return None
            await self._clock.sleep(SAMPLE_SECONDS)
        after = await self._count()
        if before is None or after is None:
            return None
        (began, first), (ended, second) = before, after
        return draining(second.count, second.oldest, first.count - second.count, ended - began)

    async def _count(self) -> tuple[float, LateWork] | None:
        began = self._clock.monotonic()
        late = await self._agenda.late_work(self._grace)
        now = self._clock.monotonic()
        self._took = now - began
        self._counted = None if late is None else (now, late)
        return self._counted
