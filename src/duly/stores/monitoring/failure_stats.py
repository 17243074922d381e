"""Failure statistics, counted by indexes and up to a limit: the cost does not grow with the
ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from duly.domain.monitoring.failure_stats import CANDIDATES, DAY, checked_since
from duly.records.state import State
from duly.records.stats import Failing, FailureStats, LikelyPoison, OldestWaiting, Poison, Retries
from duly.records.status import COUNTED_UP_TO
from duly.stores.database import Database, NamedRow
from duly.stores.deliveries.ledger import Deliveries
from duly.stores.schedules.plans import Plans

ENDS = (State.COMPLETED, State.DEAD)


class FailureStatsTable:
    """The failure statistics of one namespace."""

    def __init__(
        self, database: Database, namespace: str, deliveries: Deliveries, plans: Plans
    ) -> None:
        self._database = database
        self._namespace = namespace
        self._deliveries = deliveries
        self._plans = plans

    async def stats(
        self, since: datetime | timedelta | float, most: int = COUNTED_UP_TO
    ) -> FailureStats:
        """The current state, and counts since then, by the store's clock."""
        now, _ = await self._plans.clock()
        since_at = checked_since(since, now)
        names = ("recent", "reasons", "retries", "halted")
        parameters = {"since_at": since_at, "until_at": now, "most": most}
        rows = {name: await self._rows(name, **parameters) for name in names}
        candidates = await self.poison_candidates(CANDIDATES, most)
        halted = _counts(rows["halted"], "halted")
        return FailureStats(
            since=since_at,
            at=now,
            counted_up_to=most,
            capped=[name for name in names if any(row["is_capped"] for row in rows[name])],
            states=_counts(rows["recent"], "state"),
            attempts=_counts([row for row in rows["recent"] if row["state"] in ENDS], "attempt"),
            reasons=_counts(rows["reasons"], "reason"),
            retries=_retries(rows["retries"][0]),
            poison=candidates,
            blocked_streams=halted.get("blocked", 0),
            paused_streams=halted.get("paused", 0),
            oldest_waiting=await self._oldest_waiting(),
        )

    async def failing(self, now: datetime) -> Failing:
        """The cheap part of the statistics, for display every second: of the last day."""
        parameters = {"since_at": now - DAY, "until_at": now, "most": COUNTED_UP_TO}
        retries = await self._rows("retries", **parameters)
        halted = _counts(await self._rows("halted", **parameters), "halted")
        return Failing(
            _retries(retries[0]),
            (await self.poison_candidates(1, COUNTED_UP_TO)).count,
            halted.get("blocked", 0),
            halted.get("paused", 0),
        )

    async def poison_candidates(self, limit: int, most: int) -> Poison:
        """Unfinished deliveries whose worker died while it held them, most crashes first."""
        rows = await self._rows("poison_candidates", most=most, limit=limit)
        names = LikelyPoison.__struct_fields__
        candidates = [LikelyPoison(**{name: row[name] for name in names}) for row in rows]
        return Poison(rows[0]["count"] if rows else 0, candidates)

    async def _oldest_waiting(self) -> OldestWaiting | None:
        for each in await self._deliveries.late(timedelta(), 1):
            return OldestWaiting(each.id, each.target, each.next_at or each.due_at)
        return None

    async def _rows(self, statement: str, **parameters: Any) -> Sequence[NamedRow]:
        named = {"namespace": self._namespace, **parameters}
        return await self._database.fetch_named(f"failure_stats.{statement}", "any", **named)


def _counts(rows: Sequence[NamedRow], key: str) -> dict[Any, int]:
    counts: Counter[Any] = Counter()
    for row in rows:
        if row["count"]:
            counts[row[key]] += row["count"]
    return dict(sorted(counts.items()))


def _retries(row: NamedRow) -> Retries:
    return Retries(row["count"], row["next_at"], row["last_at"])
