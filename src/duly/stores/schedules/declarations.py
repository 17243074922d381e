"""Schedules that code declares: which left the code, and which of those are orphans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duly.domain.schedules.origin import Origin
from duly.records.schedule import OrphanedSchedule
from duly.stores.database import Database, Session
from duly.stores.schedules.schedules import Decide, Schedules


class Declarations:
    """The schedules of one namespace that code declares."""

    def __init__(self, database: Database, namespace: str, schedules: Schedules) -> None:
        self._database = database
        self._namespace = namespace
        self._schedules = schedules

    async def undeclared(self, program: str, declared: Sequence[str]) -> dict[str, Origin]:
        """The schedules of the program, by name, that are not in `declared` and have not left."""
        rows = await self._database.fetch(
            "declarations.undeclared",
            "any",
            namespace=self._namespace,
            program=program,
            declared=list(declared),
        )
        return {name: Origin(program, place) for name, place in rows}

    async def leave(self, program: str, names: Sequence[str]) -> None:
        """Record that the code of the program declares these no longer; safe to repeat."""
        if names:
            await self._database.fetch_batch(
                "declarations.leave",
                columns={"name": names},
                namespace=self._namespace,
                program=program,
            )

    async def orphans(
        self, after: str, limit: int, program: str | None = None
    ) -> list[OrphanedSchedule]:
        """Those that left the code and that no live worker declares, by name."""
        return await self._orphans(self._database, after=after, limit=limit, program=program)

    async def remove(
        self,
        name: str,
        decide: Decide,
        actor: str,
        detail: Mapping[str, Any] | None = None,
    ) -> bool:
        """Remove one as `decide` returns, if it is an orphan; whether it was.

        Atomic: a schedule that is declared again at the same time is kept.
        """

        async def is_orphan(session: Session) -> bool:
            return bool(await self._orphans(session, name=name))

        _, revision = await self._schedules.revise(name, decide, actor, detail, only_if=is_orphan)
        return revision is not None

    async def _orphans(
        self,
        session: Session,
        *,
        after: str = "",
        limit: int = 1,
        program: str | None = None,
        name: str | None = None,
    ) -> list[OrphanedSchedule]:
        rows = await session.fetch_named(
            "declarations.orphans",
            "any",
            namespace=self._namespace,
            after=after,
            limit=limit,
            program=program,
            name=name,
        )
        return [
            OrphanedSchedule(
                name=row["name"],
                declared_in=row["place"],
                program=row["program"],
                left_at=row["left_at"],
                target=row["target"],
                next_at=row["next_at"],
            )
            for row in rows
        ]
