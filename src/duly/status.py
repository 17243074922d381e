"""How it stands and how it goes right now, for somebody who looks."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from duly.domain.figures import Stats
from duly.domain.situation import Recovering
from duly.domain.zones import zone_data_version
from duly.ports import Clock, Store, WorkerRow

SAMPLE_SECONDS = 1.0
SPAN_SECONDS = 60.0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How it stands; the planner's lag is in seconds."""

    store: str
    workers: int
    recovering: Recovering | None
    next_planned_at: datetime | None
    planner_lag: float
    zones: str


class Top(msgspec.Struct, frozen=True, kw_only=True):
    """How it goes: what is due and held by nobody, and the last minute by the second.

    At most 50 000 of a minute's deliveries are looked at; with more, the rates are `at_least`.
    """

    at: datetime
    accepted_per_second: float
    completed_per_second: float
    failed_per_second: float
    at_least: bool
    due: int
    oldest_due_at: datetime | None
    retries: int
    workers: list[WorkerRow]


async def status(store: Store, clock: Clock, grace: timedelta) -> Status:
    """Who works, what is late and how fast that goes down, what is planned next."""
    now, _ = await store.plans.clock()
    next_at = await store.plans.next_at([])
    late = timedelta() if next_at is None else max(now - next_at, timedelta())
    return Status(
        store="sqlite" if store.single_owner else "postgresql",
        workers=sum(each.alive for each in await store.workers.roster()),
        recovering=await recovering(store, clock, grace),
        next_planned_at=next_at,
        planner_lag=late.total_seconds(),
        zones=zone_data_version(),
    )


async def recovering(store: Store, clock: Clock, grace: timedelta) -> Recovering | None:
    """The late work, looked at twice to see how fast it goes down."""
    first, began = await store.agenda.late_work(grace), clock.monotonic()
    if first is None:
        return None
    await clock.sleep(SAMPLE_SECONDS)
    second, seconds = await store.agenda.late_work(grace), clock.monotonic() - began
    if second is None:
        return None
    drained = first.count - second.count
    if drained <= 0 or seconds <= 0:
        return Recovering(second.count, second.oldest)
    rate = drained / seconds
    return Recovering(second.count, second.oldest, round(rate, 1), round(second.count / rate, 1))


async def top(store: Store) -> Top:
    """How it goes now."""
    stats = await store.figures.stats(SPAN_SECONDS)
    due = await store.agenda.late_work(timedelta())
    return Top(
        at=stats.at,
        accepted_per_second=_rate(sum(stats.states.values())),
        completed_per_second=_rate(stats.states.get("completed", 0)),
        failed_per_second=_rate(sum(stats.reasons.values())),
        at_least=_is_capped(stats),
        due=0 if due is None else due.count,
        oldest_due_at=None if due is None else due.oldest,
        retries=stats.retries.count,
        workers=[each for each in await store.workers.roster() if each.alive],
    )


def _rate(many: int) -> float:
    return round(many / SPAN_SECONDS, 2)


def _is_capped(stats: Stats) -> bool:
    return bool({"states", "reasons"} & set(stats.capped))
