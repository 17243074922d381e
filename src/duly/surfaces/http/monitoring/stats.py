"""`/v1/stats` and `/v1/alerts`: how it stands, what happened, what is alarming."""

from __future__ import annotations

from datetime import timedelta

from litestar import get
from litestar.di import NamedDependency

from duly.domain.monitoring.failure_stats import DAY, FailureStats
from duly.domain.monitoring.rollups import HOUR, NOTHING, Series, plus
from duly.services.monitoring.status import Status, Top
from duly.surfaces.http.monitoring.stats_bodies import (
    AlertPage,
    AlertsQuery,
    FailuresQuery,
    Overview,
    SeriesQuery,
    begin,
)
from duly.surfaces.http.protocol.decoding import asked
from duly.surfaces.http.protocol.request_context import Served


@get("/stats", operation_id="get_stats")
async def now(duly_app: Served) -> Overview:
    """How it stands now, and what happened within an hour.

    No count goes beyond the limit beside it; what happened is read from minutes, not from tables.
    """
    last_hour = NOTHING
    for point in (await duly_app.series(timedelta(minutes=59))).points:
        last_hour = plus(last_hour, point)
    return Overview(
        now=await duly_app.watch.situation(),
        last_hour=last_hour,
    )


@get("/status", operation_id="get_status")
async def status(duly_app: Served) -> Status:
    """Who works, what is late and how fast that goes down, what is planned next.

    While something is late this takes a second, in which it is seen to go down or not.
    """
    return await duly_app.watch.status()


@get("/stats/top", operation_id="get_top")
async def top(duly_app: Served) -> Top:
    """How it goes right now: the last minute by the second, what is due, and who works."""
    return await duly_app.watch.top()


@get("/stats/failures", dependencies={"wanted": asked(FailuresQuery)}, operation_id="get_failures")
async def failures(duly_app: Served, wanted: NamedDependency[FailuresQuery]) -> FailureStats:
    """How deliveries fared since a moment: attempts, reasons, retries to come, poison."""
    found: FailureStats = await duly_app.stats(begin(wanted.since, wanted.span) or DAY)
    return found


@get("/stats/series", dependencies={"wanted": asked(SeriesQuery)}, operation_id="get_series")
async def series(duly_app: Served, wanted: NamedDependency[SeriesQuery]) -> Series:
    """What happened, step by step; minutes are kept for 35 days."""
    found: Series = await duly_app.series(
        begin(wanted.since, wanted.span) or HOUR, wanted.until, wanted.step
    )
    return found


@get("/alerts", dependencies={"wanted": asked(AlertsQuery)}, operation_id="list_alerts")
async def alerts(duly_app: Served, wanted: NamedDependency[AlertsQuery]) -> AlertPage:
    """Alerts, newest first, those that are over too."""
    if wanted.raised:
        return AlertPage(items=[*reversed(await duly_app.alerts.raised())])
    found = await duly_app.alerts.list(before=wanted.before, limit=wanted.limit)
    more = found[-1].id if len(found) == wanted.limit else None
    return AlertPage(items=list(found), next=more)


ROUTES = [now, status, top, failures, series, alerts]
