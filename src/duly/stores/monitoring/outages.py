"""What the ledger knows of outages, read in slices so that no statement takes long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from duly.domain.moments import EPOCH, MICROSECOND, microseconds
from duly.domain.monitoring.outages import Delays, Stop, Work
from duly.stores.database import Database
from duly.stores.deliveries.maintenance import BEGINNING, END

SLICE = 10_000
Parameters = dict[str, Any]


class Outages:
    """Reads when attempts ran and deliveries waited, of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def work(
        self, horizon: datetime, seen_at: datetime, least: timedelta, most: int
    ) -> tuple[Work, bool]:
        """What is known since the horizon, and whether more than `most` deliveries exist."""
        found, is_capped = Work(), True
        times: Parameters = {
            "horizon_at": horizon,
            "seen_at": seen_at,
            "at_least": least.total_seconds(),
        }
        async for part in self._slices(most):
            for row in await self._rows("worked", times | part):
                found.ran(row["minute"], row["first_at"], min(row["last_at"], seen_at))
            for row in await self._rows("waited", times | part):
                found.waited(row["minute"], row["ready_minute"], row["ready_at"])
            is_capped = part["floor"] != BEGINNING
        first_at = (await self._rows("running", times))[0]["first_at"]
        if first_at is not None:
            found.ran((first_at - EPOCH) // timedelta(minutes=1), first_at, seen_at)
        return found, is_capped

    async def delays(self, stops: Sequence[Stop], seen_at: datetime, most: int) -> list[Delays]:
        """How late the deliveries of each outage were."""
        found = [Delays(each, seen_at) for each in stops]
        ended = [each.ended_at or seen_at for each in stops]
        wanted: Parameters = {
            "seen_at": seen_at,
            "ended": [microseconds(each) for each in ended],
            "last": [microseconds(each.busy_until or seen_at) for each in stops],
            "earliest_at": min(ended),
            "latest_at": max(ended),
        }
        async for part in self._slices(most):
            for row in await self._rows("delayed", wanted | part):
                late, started_at = row["late"] * MICROSECOND, EPOCH + row["started"] * MICROSECOND
                found[row["outage"]].add(late, started_at, waits=bool(row["is_waiting"]))
        return found

    async def _slices(self, most: int) -> AsyncIterator[Parameters]:
        """Parts of the ledger, newest first, of up to `most` rows together."""
        before = END
        for _ in range(-(-most // SLICE)):
            rows = await self._database.fetch_named("pages.floor", before=before, most=SLICE - 1)
            floor = str(rows[0]["id"]) if rows else BEGINNING
            yield {"before": before, "floor": floor}
            if not rows:
                return
            before = floor

    async def _rows(self, name: str, parameters: Parameters) -> Sequence[Any]:
        return await self._database.fetch_named(
            f"outages.{name}", namespace=self._namespace, **parameters
        )
