"""Monitoring of one namespace: its status, counts, and late or stuck deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any

from duly.domain import checks
from duly.domain.monitoring.failure_stats import DAY
from duly.domain.monitoring.outages import LEAST, WEEK
from duly.domain.monitoring.part_counts import checked_part
from duly.domain.monitoring.rollups import HOUR, MINUTE, NOTHING, checked_span, filled, plus
from duly.ports import Clock, Store
from duly.records.delivery import Delivery, ExplainedDelivery, listed
from duly.records.outage import OutageReport
from duly.records.stats import FailureStats, Series
from duly.records.status import NamespaceStatus, Overview, Status, Top
from duly.records.target import HandlerTarget
from duly.services.monitoring.live import Live
from duly.services.monitoring.outages import outages
from duly.services.monitoring.recovering import Recovering
from duly.services.monitoring.shared_read import SharedRead
from duly.services.monitoring.status import status, top

SOON_ENOUGH = 5.0
"""The timeout for callers with a timeout of their own: Prometheus has ten seconds."""
FLUSH_SECONDS = 0.3
"""How long a reader waits for the counts of this process to be written."""

Flush = Callable[[], Coroutine[Any, Any, object]]


class Monitoring:
    """The status and statistics of one namespace.

    `flush` writes the counts of this process that are not in the store yet.
    """

    def __init__(self, store: Store, clock: Clock, grace: timedelta, flush: Flush) -> None:
        self.live = Live(store, self.namespace_status, clock)
        self._store = store
        self._clock = clock
        self._grace = grace
        self._flush = flush
        self._look = SharedRead(lambda: store.status.look(grace), clock)
        self._recovering = Recovering(store.agenda, clock, grace)
        self._flushing: asyncio.Task[object] | None = None

    async def __call__(self, since: datetime | timedelta | float = DAY) -> FailureStats:
        """The same as `failures`."""
        return await self.failures(since)

    async def failures(self, since: datetime | timedelta | float = DAY) -> FailureStats:
        """Failures since a moment or for a duration: attempts, reasons, retries, poison."""
        return await self._store.failure_stats.stats(since)

    async def stop(self) -> None:
        """End live events and reads in progress; called when the App closes."""
        await self.live.stop()
        await self._look.stop()
        await self._recovering.stop()

    async def namespace_status(self, within: float | None = None) -> NamespaceStatus:
        """The counts of the namespace, in a read that all callers share.

        StoreUnavailable also if it takes longer than `within` seconds.
        """
        return await self._look(within)

    async def status(self) -> Status:
        """Workers, late deliveries and how fast they drain, and what is planned next.

        The first one while something is late takes a second, to measure how fast it drains.
        """
        now = await self._look(age=0)
        return await status(self._store, now, await self._recovering())

    async def overview(self) -> Overview:
        """The status now, and the counts of the last hour."""
        last_hour = NOTHING
        for point in (await self.series(HOUR - MINUTE)).points:
            last_hour = plus(last_hour, point)
        return Overview(now=await self.namespace_status(), last_hour=last_hour)

    async def top(self) -> Top:
        """Rates of the last minute, what is due, and the workers that are alive."""
        minutes = (await self.series(MINUTE)).points
        return top(await self.namespace_status(), minutes, await self._store.workers.all())

    async def late(
        self, grace: timedelta | None = None, *, limit: int = 50, payloads: bool = True
    ) -> Sequence[Delivery]:
        """Deliveries that are due and not claimed, longest waiting first.

        `grace` is how late they are at least; None takes the setting.
        """
        allowed = self._grace if grace is None else grace
        found = await self._store.deliveries.late(allowed, checks.checked_limit(limit))
        return listed(found, payloads=payloads)

    async def stuck(
        self, held_for: timedelta, *, limit: int = 50, payloads: bool = True
    ) -> Sequence[ExplainedDelivery]:
        """Deliveries that need an intervention or have run for longer than `held_for`, and why."""
        found = await self._store.deliveries.stuck(held_for, checks.checked_limit(limit))
        return listed(found, payloads=payloads)

    async def outages(
        self,
        since: datetime | timedelta | float = WEEK,
        *,
        at_least: timedelta | float | str = LEAST,
        limit: int = 50,
    ) -> OutageReport:
        """Spans in which nothing was attempted although deliveries were due, latest first.

        Those that ended since a moment or within a duration, and took `at_least` that long. It is
        found from the deliveries in the store, so it knows nothing of what was pruned.
        """
        await self._write_counts()
        return await outages(self._store, since, at_least, limit)

    async def series(
        self,
        since: datetime | timedelta | float = HOUR,
        until: datetime | None = None,
        step: timedelta | float = MINUTE,
        *,
        target: str | HandlerTarget | None = None,
        schedule: str | None = None,
    ) -> Series:
        """Counts since a moment, or for a duration before `until`, in steps of whole minutes.

        They include all workers of the namespace, those of other processes after a second or two.
        With `target` or `schedule`, only the outcomes of its deliveries: completed, failed, dead
        and cancelled, those of other processes after ten seconds.
        """
        part = checked_part(target, schedule)
        now, _ = await self._store.plans.clock()
        span = checked_span(since, until, step, now)
        await self._write_counts()
        rollups = self._store.rollups
        if part is not None:
            return filled(span, await rollups.part_series(*part, span))
        return filled(span, await rollups.series(span), await rollups.times(span))

    async def _write_counts(self) -> None:
        """Write the counts of this process, unless it takes long: SQLite has one writer."""
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush())
        await asyncio.wait({self._flushing}, timeout=FLUSH_SECONDS)
        if self._flushing.done():
            self._flushing.result()
