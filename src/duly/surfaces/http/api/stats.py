"""`/v1/stats` and `/v1/alerts`: how it stands, what happened, what is alarming."""

from __future__ import annotations

from datetime import timedelta

from litestar import get
from litestar.di import NamedDependency

from duly.domain.rollups import HOUR, NOTHING, Series, plus
from duly.surfaces.http.bodies import asked
from duly.surfaces.http.served import Served
from duly.surfaces.http.shapes.stats import AlertPage, AlertsQuery, Overview, SeriesQuery


@get("/stats")
async def now(duly_app: Served) -> Overview:
    """How it stands now, what happened within an hour, and how deliveries fared for a day.

    No count goes beyond the limit beside it; what happened is read from minutes, not from tables.
    """
    last_hour = NOTHING
    for point in (await duly_app.series(timedelta(minutes=59))).points:
        last_hour = plus(last_hour, point)
    return Overview(
        now=await duly_app.watch.situation(),
        last_hour=last_hour,
        failures=await duly_app.stats(),
    )


@get("/stats/series", dependencies={"wanted": asked(SeriesQuery)})
async def series(duly_app: Served, wanted: NamedDependency[SeriesQuery]) -> Series:
    """What happened, step by step; minutes are kept for 35 days."""
    found: Series = await duly_app.series(wanted.since or HOUR, wanted.until, wanted.step)
    return found


@get("/alerts", dependencies={"wanted": asked(AlertsQuery)})
async def alerts(duly_app: Served, wanted: NamedDependency[AlertsQuery]) -> AlertPage:
    """Alerts, newest first, those that are over too."""
    if wanted.raised:
        return AlertPage(items=[*reversed(await duly_app.alerts.raised())])
    found = await duly_app.alerts.list(before=wanted.before, limit=wanted.limit)
    more = found[-1].id if len(found) == wanted.limit else None
    return AlertPage(items=list(found), next=more)


ROUTES = [now, series, alerts]
