"""Writes counts by the minute, at most once a second.

Nothing waits for it. A process that is killed loses its counts of the last second, no delivery.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from weakref import WeakSet

from duly.domain.monitoring.rollups import EMPTY, Tally
from duly.engine.loops import Pause
from duly.engine.monitoring.part_counter import PartCounter
from duly.ports import Clock, Rollups

WRITE_SECONDS = 1.0
PARTS_SECONDS = 10.0
"""How often the counts of targets and schedules are written: there may be thousands of them."""
LONG_SECONDS = 3.0
"""After this time without a write, no loop of this process seems to write."""


class RollupWriter:
    """Adds the counts since its last write to this worker's current minute, in each namespace."""

    name = "rollup writer"

    def __init__(
        self,
        rollups: Callable[[str | None], Rollups],
        clock: Clock,
        counted: Callable[[], Mapping[str, Tally]],
    ) -> None:
        """`rollups` of None are those of the process's own namespace."""
        self.reset()
        self.worker: Callable[[], int] = lambda: 0
        self.parts = PartCounter()
        self.others: WeakSet[RollupWriter] = WeakSet()
        """Writers of the app's other namespaces, which have no loop."""
        self._rollups = rollups
        self._clock = clock
        self._counted = counted
        self._written: dict[str, Tally] = {}
        self._written_at = self._parts_written_at = float("-inf")

    def reset(self) -> None:
        """Prepare for use in a new event loop."""
        self.wake = asyncio.Event()
        self._turn = asyncio.Lock()

    async def tick(self) -> Pause:
        """Write the counts that are not written yet."""
        async with self._turn:
            for namespace, counted in self._counted().items():
                before = self._written.get(namespace, EMPTY)
                if counted is not before and (since := counted.less(before)):
                    await self._rollups(namespace).add(self.worker(), since)
                    self._written[namespace] = counted
            self._written_at = self._clock.monotonic()
            if self._written_at - self._parts_written_at >= PARTS_SECONDS:
                await self._write_parts()
        for other in list(self.others):
            await other.tick()
        return Pause(WRITE_SECONDS)

    async def flush(self) -> None:
        """Write all counts, those of targets and schedules too."""
        self._parts_written_at = float("-inf")
        await self.tick()

    async def _write_parts(self) -> None:
        if taken := self.parts.take():
            try:
                await self._rollups(None).add_parts(self.worker(), taken)
            except BaseException:
                self.parts.put_back(taken)
                raise
        self._parts_written_at = self._written_at

    async def write_if_due(self) -> None:
        """Write them if no loop does: for a process that only accepts deliveries."""
        if self._clock.monotonic() - self._written_at >= LONG_SECONDS:
            await self.tick()
