"""`duly status`: who works, what is late and how fast that goes down, what is planned next."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from duly.app import App
from duly.domain.zones import zone_data_version
from duly.engine.backlog import Recovering
from duly.surfaces.cli.options import COMMON, Common, client
from duly.surfaces.cli.render import answer, cell, facts, fields
from duly.surfaces.cli.times import spelled

SAMPLE_SECONDS = 1.0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How it stands; the planner's lag is in seconds."""

    store: str
    workers: int
    recovering: Recovering | None
    next_planned_at: datetime | None
    planner_lag: float
    zones: str


async def status(*, common: Common = COMMON) -> None:
    """Show workers, late work and how long it takes to drain, and what is planned next."""
    async with client(common) as app:
        found = await _status(app)
    answer(common.json, found, lambda: facts(_told(found)))


async def _status(app: App) -> Status:
    now, _ = await app.store.plans.clock()
    next_at = await app.store.plans.next_at([])
    late = timedelta() if next_at is None else max(now - next_at, timedelta())
    return Status(
        store="sqlite" if app.store.single_owner else "postgresql",
        workers=sum(each.alive for each in await app.store.workers.roster()),
        recovering=await recovering(app),
        next_planned_at=next_at,
        planner_lag=late.total_seconds(),
        zones=zone_data_version(),
    )


async def recovering(app: App) -> Recovering | None:
    """The late work, looked at twice to see how fast it goes down."""
    grace = timedelta(seconds=app.settings.grace)
    first, began = await app.store.agenda.late_work(grace), app.clock.monotonic()
    if first is None:
        return None
    await app.clock.sleep(SAMPLE_SECONDS)
    second, seconds = await app.store.agenda.late_work(grace), app.clock.monotonic() - began
    if second is None:
        return None
    drained = first.count - second.count
    if drained <= 0 or seconds <= 0:
        return Recovering(second.count, second.oldest)
    rate = drained / seconds
    return Recovering(second.count, second.oldest, round(rate, 1), round(second.count / rate, 1))


def _told(found: Status) -> dict[str, Any]:
    late = found.recovering
    return fields(found) | {
        "recovering": "no late work" if late is None else _recovering(late),
        "planner_lag": spelled(found.planner_lag) if found.planner_lag else "none",
        "next_planned_at": found.next_planned_at or "nothing",
    }


def _recovering(late: Recovering) -> str:
    told = f"{late.count} late, the oldest since {cell(late.oldest)}"
    if late.rate is None or late.seconds_left is None:
        return f"{told}; it does not go down"
    return f"{told}; {late.rate:g} a second, {spelled(late.seconds_left)} left"
