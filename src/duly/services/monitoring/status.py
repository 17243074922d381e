"""How it stands and how it goes right now, for somebody who looks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from duly.domain.monitoring.rollups import MINUTE
from duly.domain.time.zones import zone_data_version
from duly.ports import Clock, Store, WorkerRow
from duly.records.stats import Point
from duly.records.status import BacklogStatus, NamespaceStatus, Status, Top

SAMPLE_SECONDS = 1.0


async def status(store: Store, clock: Clock, grace: timedelta) -> Status:
    """Who works, what is late and how fast that goes down, what is planned next."""
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
        return BacklogStatus(second.count, second.oldest)
    rate = drained / seconds
    return BacklogStatus(second.count, second.oldest, round(rate, 1), round(second.count / rate, 1))


def top(stands: NamespaceStatus, minutes: Sequence[Point], workers: Sequence[WorkerRow]) -> Top:
    """How it goes, by the minute that is over and the one that is not."""
    before, present = minutes[-2:]
    still = 1 - min(max((stands.at - present.at) / MINUTE, 0.0), 1.0)

    def rate(name: str) -> float:
        # Of the minute before, the part that is within the last sixty seconds.
        many: float = getattr(before, name) * still + getattr(present, name)
        return round(many / MINUTE.total_seconds(), 2)

    return Top(
        at=stands.at,
        accepted_per_second=rate("accepted"),
        completed_per_second=rate("completed"),
        failed_per_second=rate("failed"),
        counted_up_to=stands.counted_up_to,
        due=stands.due,
        oldest_due_at=stands.oldest_due_at,
        retries=stands.retries.count,
        workers=[each for each in workers if each.alive],
    )
