"""A server's status and statistics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from duly.client.requester import Requester, page_of
from duly.domain.monitoring.failure_stats import DAY
from duly.domain.monitoring.outages import LEAST, WEEK, checked_least
from duly.domain.monitoring.rollups import HOUR, MINUTE
from duly.records.delivery import Delivery, ExplainedDelivery
from duly.records.outage import OutageReport
from duly.records.stats import FailureStats, Series
from duly.records.status import Overview, Status, Top
from duly.records.target import HandlerTarget


class Stats:
    """The status and statistics of one server's namespace."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def __call__(self, since: datetime | timedelta | float = DAY) -> FailureStats:
        """The same as `failures`."""
        return await self.failures(since)

    async def failures(self, since: datetime | timedelta | float = DAY) -> FailureStats:
        """Failures since a moment or for a duration: attempts, reasons, retries, poison."""
        return await self._requester.get(FailureStats, "stats", "failures", **_from(since))

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

        With `target` or `schedule`, only the outcomes of its deliveries.
        """
        named = target.name if isinstance(target, HandlerTarget) else target
        part = {"target": named, "schedule": schedule}
        query = _from(since) | {"until": until, "step": _seconds(step)} | part
        return await self._requester.get(Series, "stats", "series", **query)

    async def outages(
        self,
        since: datetime | timedelta | float = WEEK,
        *,
        at_least: timedelta | float | str = LEAST,
        limit: int = 50,
    ) -> OutageReport:
        """Spans in which nothing was attempted although deliveries were due, latest first.

        Those that ended since a moment or within a duration, and took `at_least` that long.
        """
        least = _seconds(checked_least(at_least))
        query = _from(since) | {"at_least": least, "limit": limit}
        return await self._requester.get(OutageReport, "stats", "outages", **query)

    async def overview(self) -> Overview:
        """The status now, and the counts of the last hour."""
        return await self._requester.get(Overview, "stats")

    async def status(self) -> Status:
        """Workers, late deliveries and how fast they drain, and what is planned next."""
        return await self._requester.get(Status, "status")

    async def top(self) -> Top:
        """Rates of the last minute, what is due, and the workers that are alive."""
        return await self._requester.get(Top, "stats", "top")

    async def late(
        self, grace: timedelta | None = None, *, limit: int = 50, payloads: bool = True
    ) -> Sequence[Delivery]:
        """Deliveries that are due and not claimed, longest waiting first."""
        seconds = None if grace is None else grace.total_seconds()
        place = ("deliveries", "late")
        page = await self._requester.get(
            page_of(Delivery), *place, grace=seconds, limit=limit, payloads=payloads
        )
        return page.items

    async def stuck(
        self, held_for: timedelta, *, limit: int = 50, payloads: bool = True
    ) -> Sequence[ExplainedDelivery]:
        """Deliveries that need an intervention or have run for longer than `held_for`, and why."""
        seconds, place = held_for.total_seconds(), ("deliveries", "stuck")
        page = await self._requester.get(
            page_of(ExplainedDelivery), *place, held_for=seconds, limit=limit, payloads=payloads
        )
        return page.items


def _from(since: datetime | timedelta | float) -> dict[str, Any]:
    return {"since": since} if isinstance(since, datetime) else {"span": _seconds(since)}


def _seconds(span: timedelta | float) -> float:
    seconds = span.total_seconds() if isinstance(span, timedelta) else float(span)
    return int(seconds) if seconds.is_integer() else seconds
