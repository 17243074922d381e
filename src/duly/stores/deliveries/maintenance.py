"""Pruning and repair of the store, in slices of the ledger so that each call is short."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from duly.domain.monitoring.rollups import KEPT_FOR
from duly.ports import Swept
from duly.stores.database import Database, Row
from duly.stores.unique_keys import UniqueKeys, tidy_freed

BEGINNING = "00000000-0000-0000-0000-000000000000"
LOWEST = -(2**63)
"""Below the number of any schedule."""
END = "ffffffff-ffff-ffff-ffff-ffffffffffff"


class Maintenance:
    """Prunes finished work, and repairs what regular processing would never pick up."""

    def __init__(self, database: Database, served: Sequence[str] | None) -> None:
        self._database = database
        self._served = None if served is None else list(served)

    async def prune(
        self, completed_for: timedelta, dead_for: timedelta, after: str, batch: int
    ) -> tuple[int, str | None]:
        """Remove finished deliveries of one slice; returns how many, and the next slice's start."""
        until, more = await self._slice(after, batch)
        rows: Sequence[Row] = []
        if until is not None:
            rows = await self._finished("prune", completed_for, dead_for, after, until)
        if not more:
            await self._prune_names(completed_for, batch)
        return len(rows), until if more else None

    async def _prune_names(self, completed_for: timedelta, batch: int) -> None:
        await self._database.fetch(
            "maintenance.prune_workers", "any", completed_for=completed_for.total_seconds()
        )
        await self._database.fetch("gates.forget")
        for statement in ("rollups.prune", "rollups.prune_parts", "alerts.prune", "traces.prune"):
            await self._database.fetch(
                statement, served=self._served, kept_for=KEPT_FOR.total_seconds()
            )
        for row in await self._database.fetch_named("ledger.namespaces", served=self._served):
            await self._prune_streams(row["namespace"], completed_for, batch)
        await self._prune_former(batch)
        await self._prune_limit_keys(batch)

    async def _prune_streams(self, namespace: str, idle_for: timedelta, batch: int) -> None:
        after: str | None = ""
        while after is not None:
            rows = await self._database.fetch(
                "maintenance.slice_streams", namespace=namespace, after=after, batch=batch
            )
            until, size = rows[0]
            if until is not None:
                await self._database.fetch(
                    "maintenance.prune_streams",
                    namespace=namespace,
                    after=after,
                    until=until,
                    completed_for=idle_for.total_seconds(),
                )
            after = until if size == batch else None

    async def _prune_limit_keys(self, batch: int) -> None:
        while len(await self._database.fetch("turns.prune", limit=batch)) == batch:
            pass

    async def _prune_former(self, batch: int) -> None:
        after: int | None = LOWEST
        while after is not None:
            rows = await self._database.fetch("maintenance.slice_former", after=after, batch=batch)
            until, size = rows[0]
            if until is not None:
                await self._database.fetch(
                    "maintenance.prune_former", served=self._served, after=after, until=until
                )
            after = until if size == batch else None

    async def count_prunable(
        self, completed_for: timedelta, dead_for: timedelta, after: str, batch: int
    ) -> tuple[int, str | None]:
        """How many deliveries of one slice `prune` would remove, and the next slice's start."""
        until, more = await self._slice(after, batch)
        if until is None:
            return 0, None
        rows = await self._finished("count_prunable", completed_for, dead_for, after, until)
        return int(rows[0][0]), until if more else None

    async def _finished(
        self, statement: str, completed_for: timedelta, dead_for: timedelta, after: str, until: str
    ) -> Sequence[Row]:
        return await self._database.fetch(
            f"maintenance.{statement}",
            "any",
            served=self._served,
            after=after,
            until=until,
            completed_for=completed_for.total_seconds(),
            dead_for=dead_for.total_seconds(),
        )

    async def forget(self, namespace: str, after: str, batch: int) -> str | None:
        """Remove all of a namespace in one slice, unfinished work too, and at the end its names.

        Returns the next slice's start. For temporary namespaces.
        """
        until, more = await self._slice(after, batch)
        if until is not None:
            await self._database.fetch(
                "maintenance.forget", "any", namespace=namespace, after=after, until=until
            )
        if not more:
            await self._database.fetch("unique.forget", namespace=namespace)
            await self._database.fetch("maintenance.forget_names", "any", namespace=namespace)
        return until if more else None

    async def forget_finished(
        self, namespace: str, target: str, tag: str, after: str, batch: int
    ) -> tuple[int, str | None]:
        """Remove finished deliveries of a target with a tag in one slice.

        Returns how many, and the next slice's start.
        """
        until, more = await self._slice(after, batch)
        rows: Sequence[Row] = []
        if until is not None:
            rows = await self._database.fetch(
                "maintenance.forget_finished",
                "any",
                namespace=namespace,
                target=target,
                tag=tag,
                after=after,
                until=until,
            )
        return len(rows), until if more else None

    async def forget_stream(self, namespace: str, stream: str) -> bool:
        """Remove a stream that has no deliveries; whether there was one."""
        found = await self._database.fetch(
            "maintenance.forget_stream", namespace=namespace, stream=stream
        )
        return bool(found)

    async def sweep(self, after: str, batch: int) -> tuple[Swept, str | None]:
        """Repair what regular processing would never pick up, in one slice of the ledger."""
        last, more = await self._slice(after, batch)
        # The last slice extends to the end, for lanes whose delivery is missing.
        until = last if more else END
        orphans = await self._database.fetch(
            "maintenance.free_orphans", "any", after=after, until=until
        )
        if orphans:
            async with self._database.together() as session:
                await tidy_freed(session, [row[0] for row in orphans])
        missing = await self._database.fetch(
            "maintenance.lay_missing", "any", after=after, until=until
        )
        without_delivery = await self._database.fetch(
            "maintenance.drop_hollow", "any", after=after, until=until
        )
        without_lane = await self._database.fetch(
            "maintenance.lay_lines", "any", after=after, until=until
        )
        skipped = await self._database.fetch("maintenance.recall", "any", after=after, until=until)
        if not more:
            await UniqueKeys(self._database).sweep(batch)
        swept = Swept(
            len(missing) + len(without_lane) + len(skipped), len(orphans), len(without_delivery)
        )
        return swept, last if more else None

    async def _slice(self, after: str, batch: int) -> tuple[str | None, bool]:
        rows = await self._database.fetch("maintenance.slice", "any", after=after, batch=batch)
        until, size = rows[0]
        return until, size == batch
