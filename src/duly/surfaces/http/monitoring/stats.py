"""`/v1/stats` and `/v1/alerts`: how it stands, what happened, what is alarming."""

from __future__ import annotations

from datetime import timedelta

from duly.domain.monitoring.failure_stats import DAY
from duly.domain.monitoring.rollups import HOUR, NOTHING, plus
from duly.records.stats import FailureStats, Series
from duly.records.status import Status, Top
from duly.services.namespace import Namespace
from duly.surfaces.http.monitoring.stats_bodies import (
    AlertPage,
    AlertsQuery,
    FailuresQuery,
    Overview,
    SeriesQuery,
    begin,
)
from duly.surfaces.http.protocol.routing import get


@get("/stats", operation_id="get_stats")
async def now(app: Namespace) -> Overview:
    """How it stands now, and what happened within an hour.

    No count goes beyond the limit beside it; what happened is read from minutes, not from tables.
    """
    last_hour = NOTHING
    for point in (await app.series(timedelta(minutes=59))).points:
        last_hour = plus(last_hour, point)
    return Overview(
        now=await app.watch.situation(),
        last_hour=last_hour,
    )


@get("/status", operation_id="get_status")
async def status(app: Namespace) -> Status:
    """Who works, what is late and how fast that goes down, what is planned next.

    While something is late this takes a second, in which it is seen to go down or not.
    """
    return await app.watch.status()


@get("/stats/top", operation_id="get_top")
async def top(app: Namespace) -> Top:
    """How it goes right now: the last minute by the second, what is due, and who works."""
    return await app.watch.top()


@get("/stats/failures", operation_id="get_failures")
async def failures(app: Namespace, query: FailuresQuery) -> FailureStats:
    """How deliveries fared since a moment: attempts, reasons, retries to come, poison."""
    found: FailureStats = await app.stats(begin(query.since, query.span) or DAY)
    return found


@get("/stats/series", operation_id="get_series")
async def series(app: Namespace, query: SeriesQuery) -> Series:
    """What happened, step by step; minutes are kept for 35 days."""
    found: Series = await app.series(
        begin(query.since, query.span) or HOUR, query.until, query.step
    )
    return found


@get("/alerts", operation_id="list_alerts")
async def alerts(app: Namespace, query: AlertsQuery) -> AlertPage:
    """Alerts, newest first, those that are over too."""
    if query.raised:
        return AlertPage(items=[*reversed(await app.alerts.raised())])
    found = await app.alerts.list(before=query.before, limit=query.limit)
    more = found[-1].id if len(found) == query.limit else None
    return AlertPage(items=list(found), next=more)


ROUTES = [now, status, top, failures, series, alerts]
