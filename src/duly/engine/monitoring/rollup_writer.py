"""Writes counts by the minute, at most once a second.

Nothing waits for it. A process that is killed loses its counts of the last second, no delivery.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from weakref import WeakSet

from duly.domain.monitoring.rollups import NOTHING, less
from duly.engine.loops import Pause
from duly.ports import Clock, Rollups
from duly.records.stats import Counts

WRITE_SECONDS = 1.0
LONG_SECONDS = 3.0
"""After this time without a write, no loop of this process seems to write."""


class RollupWriter:
    """Adds the counts since its last write to this worker's current minute, in each namespace."""

    name = "rollup writer"

    def __init__(
        self,
        rollups: Callable[[str], Rollups],
        clock: Clock,
        counted: Callable[[], Mapping[str, Counts]],
    ) -> None:
        self.reset()
        self.worker: Callable[[], int] = lambda: 0
        self.others: WeakSet[RollupWriter] = WeakSet()
        """Writers of the app's other namespaces, which have no loop."""
        self._rollups = rollups
        self._clock = clock
        self._counted = counted
        self._written: dict[str, Counts] = {}
        self._written_at = float("-inf")

    def reset(self) -> None:
        """Prepare for use in a new event loop."""
        self.wake = asyncio.Event()
        self._turn = asyncio.Lock()

    async def tick(self) -> Pause:
        """Write the counts that are not written yet."""
        async with self._turn:
            for namespace, counted in self._counted().items():
                before = self._written.get(namespace, NOTHING)
                if counted is not before and (since := less(counted, before)):
                    await self._rollups(namespace).add(self.worker(), since)
                    self._written[namespace] = counted
            self._written_at = self._clock.monotonic()
        for other in list(self.others):
            await other.tick()
        return Pause(WRITE_SECONDS)

    async def write_if_due(self) -> None:
        """Write them if no loop does: for a process that only accepts deliveries."""
        if self._clock.monotonic() - self._written_at >= LONG_SECONDS:
            await self.tick()
