"""`/v1/stats`, `/v1/status` and `/v1/alerts`: the status, what happened, and alerts."""

from __future__ import annotations

from duly.domain.monitoring.failure_stats import DAY
from duly.domain.monitoring.rollups import HOUR
from duly.records.alert import AlertPage
from duly.records.stats import FailureStats, Series
from duly.records.status import Overview, Status, Top
from duly.services.namespace import Namespace
from duly.surfaces.http.monitoring.stats_bodies import (
    AlertsQuery,
    FailuresQuery,
    SeriesQuery,
    begin,
)
from duly.surfaces.http.protocol.routing import get


@get("/stats", operation_id="get_stats")
async def now(app: Namespace) -> Overview:
    """The status now, and what happened in the last hour.

    No count exceeds the limit beside it; what happened is read from counts by the minute.
    """
    return await app.stats.overview()


@get("/status", operation_id="get_status")
async def status(app: Namespace) -> Status:
    """Workers, late deliveries and how fast they drain, and what is planned next.

    While something is late this takes a second, to measure how fast it drains.
    """
    return await app.stats.status()


@get("/stats/top", operation_id="get_top")
async def top(app: Namespace) -> Top:
    """Rates of the last minute, what is due, and the workers that are alive."""
    return await app.stats.top()


@get("/stats/failures", operation_id="get_failures")
async def failures(app: Namespace, query: FailuresQuery) -> FailureStats:
    """Failures since a moment: attempts, reasons, retries, poison."""
    return await app.stats(begin(query.since, query.span) or DAY)


@get("/stats/series", operation_id="get_series")
async def series(app: Namespace, query: SeriesQuery) -> Series:
    """Counts for each step of a period; minutes are kept for 35 days."""
    since = begin(query.since, query.span) or HOUR
    return await app.stats.series(since, query.until, query.step)


@get("/alerts", operation_id="list_alerts")
async def alerts(app: Namespace, query: AlertsQuery) -> AlertPage:
    """Alerts, newest first, including cleared ones."""
    if query.raised:
        return AlertPage(items=[*reversed(await app.alerts.raised())])
    found = await app.alerts.list(before=query.before, limit=query.limit)
    more = found[-1].id if len(found) == query.limit else None
    return AlertPage(items=list(found), next=more)


ROUTES = [now, status, top, failures, series, alerts]
