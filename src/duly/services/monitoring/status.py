"""The status of a namespace, and its rates of the last minute."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain.monitoring.rollups import MINUTE
from duly.domain.time.zones import zone_data_version
from duly.ports import Store
from duly.records.stats import Point
from duly.records.status import BacklogStatus, NamespaceStatus, Status, Top
from duly.records.worker import Worker


async def status(store: Store, now: NamespaceStatus, recovering: BacklogStatus | None) -> Status:
    """Workers, late deliveries and how fast they drain, and what is planned next."""
    pending = now.due + now.upcoming + await store.status.behind()
    return Status(
        store="sqlite" if store.single_owner else "postgresql",
        workers=now.workers,
        pending=min(pending, now.counted_up_to),
        processing=now.processing,
        dead=now.dead,
        counted_up_to=now.counted_up_to,
        recovering=recovering,
        next_planned_at=await store.plans.next_at([]),
        planner_lag=now.planner_lag,
        zones=zone_data_version(),
    )


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
