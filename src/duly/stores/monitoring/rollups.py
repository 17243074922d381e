"""Counts by minute: each worker adds to its own row, and reading sums them up."""

from __future__ import annotations

from datetime import datetime

import msgspec

from duly.domain.monitoring.rollups import Span
from duly.records.stats import Counts
from duly.stores.database import Database


class Rollups:
    """The counts by minute of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def add(self, worker: int, tally: Counts) -> None:
        """Add to the worker's counts of the current minute."""
        counts = msgspec.structs.asdict(tally)
        await self._database.fetch(
            "rollups.add", namespace=self._namespace, worker=worker, **counts
        )

    async def series(self, span: Span) -> dict[datetime, Counts]:
        """The counts of each step of the span, by its start."""
        rows = await self._database.fetch_named(
            "rollups.series",
            namespace=self._namespace,
            since_at=span.since,
            until_at=span.until,
            step=span.step.total_seconds(),
        )
        names = Counts.__struct_fields__
        return {row["begins_at"]: Counts(**{name: row[name] for name in names}) for row in rows}
