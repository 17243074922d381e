"""Backfills: create the missing occurrences of a past range."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from itertools import islice

from duly.domain import checks
from duly.domain.schedules.planning import INSTANT, Planned
from duly.domain.schedules.schedule import (
    BACKFILL_SLICE,
    Occasion,
    StoredSchedule,
    encode_occasion,
)
from duly.domain.time.occurrences import Occurrence
from duly.errors import InvalidInput
from duly.ports import Chance, Store
from duly.services.interruption import ended

MOST_BACKFILLED = 100_000


class Backfills:
    """The backfills of one namespace; the audit trail names `actor`."""

    def __init__(self, store: Store, chance: Chance, actor: str) -> None:
        self._store = store
        self._chance = chance
        self._actor = actor

    async def run(self, name: str, start: datetime, end: datetime) -> AsyncIterator[int]:
        """Create the missing occurrences from start to end, due now.

        Yields how many were new after each slice; safe to repeat, unless finished deliveries were
        pruned. Nothing is created before the schedule's own start or after its end.
        """
        schedule, now, left = await self._range(name, start, end)
        begins = max(start, schedule.timing.starts_at or start)
        found = schedule.timing.rule.occurrences(begins - INSTANT)
        while part := list(islice(found, min(BACKFILL_SLICE, left))):
            left -= len(part)
            runs = [extra_run(schedule, self._chance.delivery_id(), each, now) for each in part]
            made, cancelled = await ended(
                self._store.schedules.add_runs(schedule, runs, self._actor)
            )
            self._store.wakeups.hint()
            yield made
            if cancelled is not None:
                raise cancelled

    async def count(self, name: str, start: datetime, end: datetime) -> int:
        """How many occurrences a backfill would check."""
        return (await self._range(name, start, end))[2]

    async def _range(
        self, name: str, start: datetime, end: datetime
    ) -> tuple[StoredSchedule, datetime, int]:
        schedule = await self._store.schedules.get(checks.checked_text("name", name))
        start, end = checks.checked_moment("start", start), checks.checked_moment("end", end)
        now, _ = await self._store.plans.clock()
        if not start <= end <= now:
            raise InvalidInput("end", "give a range in the past: start <= end <= now")
        start = max(start, schedule.timing.starts_at or start)
        end = min(end, schedule.timing.ends_at or end)
        count = schedule.timing.rule.count(start - INSTANT, end) if start <= end else 0
        if count > MOST_BACKFILLED:
            raise InvalidInput(
                "start", f"{count} moments are more than {MOST_BACKFILLED}; give a shorter range"
            )
        return schedule, now, count


def extra_run(schedule: StoredSchedule, id: str, occurrence: Occurrence, now: datetime) -> Planned:
    """A delivery of the schedule that is due now; the plan does not change."""
    occasion = Occasion(schedule.name, occurrence.at, 0, schedule.timing.overlap)
    return Planned(id, occurrence.identity, now, encode_occasion(occasion))
