"""`/v1/stats`, `/v1/status` and `/v1/alerts`: the status, counts and alerts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from duly.domain.monitoring.failure_stats import DAY
from duly.domain.monitoring.outages import WEEK
from duly.domain.monitoring.rollups import HOUR
from duly.errors import InvalidInput
from duly.records.alert import AlertPage
from duly.records.outage import OutageReport
from duly.records.stats import FailureStats, Series
from duly.records.status import Overview, Status, Top
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.bodies import Moment
from duly.surfaces.http.protocol.pages import Most
from duly.surfaces.http.protocol.routing import get

Span = Annotated[float, Meta(ge=0, description="seconds before the end, instead of `since`")]


class FailuresQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The start of the time to count; by default a day ago."""

    since: Moment | None = None
    span: Span | None = None


class SeriesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The period and its steps."""

    since: Annotated[Moment | None, Meta(description="an hour before `until` if left out")] = None
    span: Span | None = None
    until: Annotated[Moment | None, Meta(description="now if left out")] = None
    step: Annotated[int, Meta(ge=60, le=31 * 86400, description="seconds, in whole minutes")] = 60
    target: Annotated[str, Meta(description="only outcomes of deliveries to it")] | None = None
    schedule: Annotated[str, Meta(description="only outcomes of its deliveries")] | None = None


class OutagesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which outages to report."""

    since: Annotated[Moment | None, Meta(description="a week ago if left out")] = None
    span: Span | None = None
    at_least: Annotated[float, Meta(ge=60, description="seconds; shorter ones are left out")] = 300
    limit: Most = 50


class AlertsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which page of alerts, or only active ones."""

    raised: Annotated[bool, Meta(description="only active ones")] = False
    before: Annotated[int, Meta(ge=0, description="the `next` of the previous page")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


@get("/stats", operation_id="get_stats")
async def now(app: Namespace) -> Overview:
    """The status now, and the counts of the last hour.

    No count exceeds the limit beside it; the last hour is read from counts by the minute.
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
    return await app.stats(_begin(query.since, query.span) or DAY)


@get("/stats/series", operation_id="get_series")
async def series(app: Namespace, query: SeriesQuery) -> Series:
    """Counts and percentiles for each step of a period; minutes are kept for 35 days.

    With `target` or `schedule`, only completed, failed, dead and cancelled are counted.
    """
    since = _begin(query.since, query.span) or HOUR
    part = {"target": query.target, "schedule": query.schedule}
    return await app.stats.series(since, query.until, query.step, **part)


@get("/stats/outages", operation_id="get_outages")
async def outages(app: Namespace, query: OutagesQuery) -> OutageReport:
    """Spans in which nothing was attempted although deliveries were due, latest first.

    Each with how many deliveries were late, how late, and when they were worked off. It is found
    from the deliveries in the store, at most the newest 500,000.
    """
    since = _begin(query.since, query.span) or WEEK
    return await app.stats.outages(since, at_least=query.at_least, limit=query.limit)


@get("/alerts", operation_id="list_alerts")
async def alerts(app: Namespace, query: AlertsQuery) -> AlertPage:
    """Alerts, newest first, including cleared ones."""
    if query.raised:
        return AlertPage(items=[*reversed(await app.alerts.raised())])
    found = await app.alerts.list(before=query.before, limit=query.limit)
    more = found[-1].id if len(found) == query.limit else None
    return AlertPage(items=list(found), next=more)


def _begin(since: datetime | None, span: float | None) -> datetime | float | None:
    if since is not None and span is not None:
        raise InvalidInput("span", "give it or since, not both")
    return since if span is None else span


ROUTES = [now, status, top, failures, series, outages, alerts]
