"""Exports counts of schedules' deliveries, for analytics.

Nothing waits for it or depends on it: counts gather in bounded memory and are written once a
second. If it is unclear whether counts were written, they are not written again, so they are never
too high.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from duly.domain.deliveries.outcomes import Settlement
from duly.domain.events import AnalyticsReachable, AnalyticsUnreachable
from duly.domain.monitoring.schedule_counts import Count, counts_of
from duly.engine.loops import Pause
from duly.engine.targets.directory import TargetDirectory
from duly.ports import Analytics, AnalyticsFailure, Emit

WRITE_SECONDS, LONGEST_SECONDS = 1.0, 10.0
MOST = 10_000
"""How many different counts are kept while they cannot be written; more are lost."""


class AnalyticsExporter:
    """Gathers and writes counts; reports once that writing fails, and once that it works again."""

    name = "analytics exporter"

    def __init__(self, analytics: Analytics, emit: Emit) -> None:
        self.wake = asyncio.Event()
        self._analytics = analytics
        self._emit = emit
        self._gathered: Counter[Count] = Counter()
        self._lost = self._failures = 0
        self._is_known = False
        """Whether it ever answered, or was reported as unavailable."""

    def note(self, settled: Sequence[Settlement], directory: TargetDirectory) -> None:
        """Count written settlements."""
        for count in counts_of(settled, directory.foreign):
            self._gather(count, 1)

    def _gather(self, count: Count, many: int) -> None:
        if count in self._gathered or len(self._gathered) < MOST:
            self._gathered[count] += many
        else:
            self._lost += many

    async def tick(self) -> Pause:
        """Write the gathered counts."""
        if self._gathered or self._failures or not self._is_known:
            await self._write()
        return Pause(min(WRITE_SECONDS * 2.0 ** min(self._failures, 10), LONGEST_SECONDS))

    async def _write(self) -> None:
        batch, self._gathered = self._gathered, Counter()
        trouble = await self._analytics.add(batch)
        self._is_known = True
        if trouble is None:
            self._answered()
            return
        if trouble.unsent:
            for count, many in batch.items():
                self._gather(count, many)
        else:
            self._lost += batch.total()
        self._failed(trouble)

    def _failed(self, trouble: AnalyticsFailure) -> None:
        self._failures += 1
        if self._failures == 1:
            self._emit(AnalyticsUnreachable(problem=trouble.problem))

    def _answered(self) -> None:
        if self._failures:
            self._emit(AnalyticsReachable(failures=self._failures, lost=self._lost))
        self._failures = self._lost = 0

    async def close(self) -> None:
        """Write the last counts, unless writing fails already, and close the connection."""
        if self._gathered and not self._failures:
            await self._write()
        await self._analytics.close()
