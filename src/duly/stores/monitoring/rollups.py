"""Counts by minute: each worker adds to its own row, and reading sums them up."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from duly.domain.monitoring.distributions import Times
from duly.domain.monitoring.part_counts import FIELDS, Part, PartKind
from duly.domain.monitoring.rollups import Span, Tally
from duly.records.stats import Counts
from duly.stores.database import Database

BUCKETS = msgspec.json.Decoder(tuple[int, ...])


class Rollups:
    """The counts by minute of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def add(self, worker: int, tally: Tally) -> None:
        """Add to the worker's counts of the current minute."""
        counts = msgspec.structs.asdict(tally.counts)
        times = {name: list(each) for name, each in msgspec.structs.asdict(tally.times).items()}
        await self._database.fetch(
            "rollups.add", namespace=self._namespace, worker=worker, **counts, **times
        )

    async def series(self, span: Span) -> dict[datetime, Counts]:
        """The counts of each step of the span, by its start."""
        rows = await self._database.fetch_named("rollups.series", **self._within(span))
        names = Counts.__struct_fields__
        return {row["begins_at"]: Counts(**{name: row[name] for name in names}) for row in rows}

    async def times(self, span: Span) -> dict[datetime, Times]:
        """The distributions of each step of the span, by its start."""
        rows = await self._database.fetch_named("rollups.times", **self._within(span))
        names = Times.__struct_fields__
        return {
            row["begins_at"]: Times(**{name: BUCKETS.decode(row[name]) for name in names})
            for row in rows
        }

    async def add_parts(self, worker: int, counts: Mapping[Part, Counts]) -> None:
        """Add to the worker's counts of targets and schedules, all in one statement."""
        columns: dict[str, list[Any]] = {
            "namespace": [part.namespace or self._namespace for part in counts],
            "kind": [part.kind.value for part in counts],
            "name": [part.name for part in counts],
            "minute_at": [part.minute_at for part in counts],
            **{field: [getattr(each, field) for each in counts.values()] for field in FIELDS},
        }
        await self._database.fetch_batch("rollups.add_parts", columns=columns, worker=worker)

    async def part_series(self, kind: PartKind, name: str, span: Span) -> dict[datetime, Counts]:
        """The counts of one target or schedule in each step of the span, by its start."""
        rows = await self._database.fetch_named(
            "rollups.part_series", **self._within(span), kind=kind.value, name=name
        )
        return {row["begins_at"]: Counts(**{each: row[each] for each in FIELDS}) for row in rows}

    def _within(self, span: Span) -> dict[str, Any]:
        return {
            "namespace": self._namespace,
            "since_at": span.since,
            "until_at": span.until,
            "step": span.step.total_seconds(),
        }
