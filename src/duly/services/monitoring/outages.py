"""The report of outages, made from what the store already knows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from duly.domain import checks
from duly.domain.monitoring.failure_stats import checked_since
from duly.domain.monitoring.outages import EXAMINED, LEAST, LOOKBACK, WEEK, checked_least
from duly.domain.monitoring.rollups import MINUTE, Span
from duly.ports import Store
from duly.records.outage import OutageReport
from duly.records.stats import Counts


async def outages(
    store: Store,
    since: datetime | timedelta | float = WEEK,
    at_least: timedelta | float | str = LEAST,
    limit: int = 50,
    most: int = EXAMINED,
) -> OutageReport:
    """Outages that ended after a moment, latest first."""
    limit, least = checks.checked_limit(limit), checked_least(at_least)
    now, _ = await store.plans.clock()
    since_at = checked_since(since, now)
    horizon = max(since_at - LOOKBACK, checks.EARLIEST)
    work, is_capped = await store.outages.work(horizon, now, least, most)
    minutes = await store.rollups.series(Span(horizon, now, MINUTE))
    work.counted(_worked(minutes))
    claimable = await store.agenda.late_work(least) is not None
    found = work.stops(horizon, now, least, claimable=claimable)
    stops = [each for each in found if each.ended_at is None or each.ended_at > since_at]
    wanted = stops[-limit:][::-1]
    delays = await store.outages.delays(wanted, now, most) if wanted else []
    return OutageReport(
        since=since_at,
        until=now,
        at_least=least.total_seconds(),
        counted_up_to=most,
        capped=is_capped or len(stops) > limit,
        outages=[each.report() for each in delays],
    )


def _worked(minutes: dict[datetime, Counts]) -> Iterator[datetime]:
    """The minutes in which attempts ended."""
    for minute, counts in minutes.items():
        if counts.completed or counts.failed or counts.on_time or counts.late:
            yield minute
