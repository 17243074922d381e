"""The status of a namespace, and its rates of the last minute."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from duly.domain.monitoring.rollups import MINUTE
from duly.domain.time.zones import zone_data_version
from duly.ports import Clock, Store
from duly.records.stats import Point
from duly.records.status import BacklogStatus, NamespaceStatus, Status, Top
from duly.records.worker import Worker

SAMPLE_SECONDS = 1.0


async def status(store: Store, clock: Clock, grace: timedelta) -> Status:
    """Workers, late deliveries and how fast they drain, and what is planned next."""
    found = await store.status.look(grace)
    pending = found.due + found.upcoming + await store.status.behind()
    return Status(
        store="sqlite" if store.single_owner else "postgresql",
        workers=found.workers,
        pending=min(pending, found.counted_up_to),
        processing=found.processing,
        dead=found.dead,
        counted_up_to=found.counted_up_to,
        recovering=await recovering(store, clock, grace),
        next_planned_at=await store.plans.next_at([]),
        planner_lag=found.planner_lag,
        zones=zone_data_version(),
    )


async def recovering(store: Store, clock: Clock, grace: timedelta) -> BacklogStatus | None:
    """Late deliveries, counted twice to measure how fast they drain."""
    first, began = await store.agenda.late_work(grace), clock.monotonic()
    if first is None:
        return None
    await clock.sleep(SAMPLE_SECONDS)
    second, seconds = await store.agenda.late_work(grace), clock.monotonic() - began
    if second is None:
        return None
    drained = first.count - second.count
    if drained <= 0 or seconds <= 0:
        return BacklogStatus(second.count, second.oldest)
    rate = drained / seconds
    return BacklogStatus(second.count, second.oldest, round(rate, 1), round(second.count / rate, 1))


def top(now: NamespaceStatus, minutes: Sequence[Point], workers: Sequence[Worker]) -> Top:
    """The rates, from the last full minute and the present one."""
    before, present = minutes[-2:]
    part = 1 - min(max((now.at - present.at) / MINUTE, 0.0), 1.0)

    def rate(name: str) -> float:
        # `part` of the last full minute is within the last sixty seconds.
        count: float = getattr(before, name) * part + getattr(present, name)
        return round(count / MINUTE.total_seconds(), 2)

    return Top(
        at=now.at,
        accepted_per_second=rate("accepted"),
        completed_per_second=rate("completed"),
        failed_per_second=rate("failed"),
        counted_up_to=now.counted_up_to,
        due=now.due,
        oldest_due_at=now.oldest_due_at,
        retries=now.retries.count,
        workers=[each for each in workers if each.alive],
    )
