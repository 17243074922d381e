"""Generations of a deployment, in which dead letters of before get one try each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec

from duly.domain.recovery import DeadLetter, pace
from duly.ports import Cause
from duly.records.recovery import Disposition, Generation
from duly.stores.access.audit import note
from duly.stores.database import Database, Row
from duly.stores.recovery.sweeps import Sweeps, by_stream


class Generations:
    """The generations in one namespace."""

    def __init__(self, database: Database, namespace: str, sweeps: Sweeps) -> None:
        self._database = database
        self._namespace = namespace
        self._sweeps = sweeps

    async def begin(self, name: str, *, with_held: bool, actor: str | None = None) -> Generation:
        """Note a generation, if it is not known; begin it again if an actor demands it."""
        async with self._database.together() as session:
            await session.fetch(
                "recovery.begin_generation",
                namespace=self._namespace,
                name=name,
                with_held=with_held,
                demanded=actor is not None,
            )
            if actor is not None:
                detail = {"with_held": with_held}
                await note(session, self._namespace, actor, "generation.replayed", name, detail)
        found = await self.get(name)
        assert found is not None
        return found

    async def get(self, name: str) -> Generation | None:
        """One generation; None if it is not known."""
        found = await self._generations(name, 1)
        return found[0][0] if found else None

    async def latest(self, limit: int) -> list[Generation]:
        """The generations, the latest first."""
        return [each for each, _ in await self._generations(None, limit)]

    async def open(self, own: str | None) -> list[tuple[Generation, bool]]:
        """Those that are not done and demanded or this worker's own, and whether demanded."""
        rows = await self._database.fetch_named(
            "recovery.open_generations", namespace=self._namespace, own=own
        )
        return [_generation(dict(row)) for row in rows]

    async def _generations(self, name: str | None, limit: int) -> list[tuple[Generation, bool]]:
        rows = await self._database.fetch_named(
            "recovery.generations", namespace=self._namespace, name=name, limit=limit
        )
        return [_generation(dict(row)) for row in rows]

    async def elsewhere(self, generation: str | None) -> set[str]:
        """The handlers of live workers that work for this namespace.

        If a generation is given, only of workers of other ones.
        """
        return await self._served("recovery.elsewhere", generation)

    async def handlers(self, generation: str) -> set[str]:
        """The handlers of live workers of this generation that work for this namespace."""
        return await self._served("recovery.handlers", generation)

    async def _served(self, statement: str, generation: str | None) -> set[str]:
        rows = await self._database.fetch(
            statement, namespace=self._namespace, generation=generation
        )
        return {name for row in rows for name in msgspec.json.decode(row[0])}

    async def untried(
        self,
        generation: Generation,
        disposition: Disposition,
        waiting: Collection[str],
        limit: int,
    ) -> list[DeadLetter]:
        """Dead letters from before the generation that it has not tried; of a stream the first."""
        wanted = {
            "namespace": self._namespace,
            "disposition": disposition,
            "first_at": generation.first_at,
            "name": generation.name,
            "waiting": sorted(waiting),
        }
        rows = await self._database.fetch("recovery.untried", **wanted, limit=limit)
        found = []
        for stream, group in by_stream(rows, lambda row: row[8]):
            letters: Sequence[Row] = list(group)
            if stream is not None:
                letters = await self._database.fetch(
                    "recovery.untried_line", **wanted, stream=stream, limit=len(letters)
                )
            found += [DeadLetter(*row) for row in letters]
        return found

    async def count_untried(
        self, generation: str, first_at: datetime | None, disposition: Disposition
    ) -> int:
        """How many of these there are; up to now without `first_at`."""
        rows = await self._database.fetch(
            "recovery.untried_count",
            namespace=self._namespace,
            disposition=disposition,
            first_at=first_at,
            name=generation,
        )
        return int(rows[0][0])

    async def revive(
        self, generation: Generation, letters: Sequence[DeadLetter], rate: float, batch: int
    ) -> int:
        """Retry some of these, as many as the rate allows, each once; returns how many."""
        done = 0
        async with self._sweeps.alone("revive") as (session, row):
            if row is None:
                return 0
            allowed = pace(row[1], row[2], rate, batch)
            chosen, cause = letters[: allowed.allowed], Cause("generation", generation.name)
            for stream, group in by_stream(chosen, lambda each: each.stream):
                if stream is not None:
                    await self._sweeps.members.lock(session, stream)
                taken = await session.fetch(
                    "recovery.take_untried",
                    ids=[each.id for each in group],
                    name=generation.name,
                    first_at=generation.first_at,
                    with_held=generation.with_held,
                )
                counts = {row[0]: row[1] for row in taken}
                done += await self._sweeps.revive(session, stream, counts, cause, generation.name)
            if done:
                await self._sweeps.pace(session, allowed.after(done, rate))
                await session.fetch(
                    "recovery.count_tried",
                    namespace=self._namespace,
                    name=generation.name,
                    tried=done,
                )
        return done

    async def skip(self, generation: str, ids: Sequence[str]) -> None:
        """Note that a generation does not try these."""
        await self._database.fetch_batch(
            "recovery.skip", columns={"id": list(ids)}, name=generation
        )

    async def end(self, name: str) -> None:
        """Note that all have had their try."""
        await self._database.fetch("recovery.end_generation", namespace=self._namespace, name=name)


def _generation(row: dict[str, Any]) -> tuple[Generation, bool]:
    demanded = bool(row.pop("demanded"))
    return Generation(**row | {"with_held": bool(row["with_held"])}), demanded
