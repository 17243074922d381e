"""The numbers by which the agenda refers to targets."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from duly.ports import TargetName
from duly.stores.database import Database, Session


class Targets:
    """The targets of one namespace; they are few and never change, so they are cached."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace
        self._numbers: dict[str, int] = {}

    async def numbers(self, names: Collection[str], *, create: bool) -> dict[str, int]:
        """The numbers of the known names; with `create`, unknown ones are created."""
        if not self._numbers.keys() >= set(names):
            await self.refresh()
            missing = sorted(set(names) - self._numbers.keys())
            if missing and create:
                columns = {"name": missing}
                await self._database.fetch_batch(
                    "ledger.create_target", columns=columns, namespace=self._namespace
                )
                await self.refresh()
        return {name: self._numbers[name] for name in names if name in self._numbers}

    def is_known(self, name: str) -> bool:
        """Whether the target is known to have a number, without asking the store."""
        return name in self._numbers

    async def numbers_within(self, session: Session, names: Collection[str]) -> dict[str, int]:
        """The numbers of all the names; unknown ones are created in the session.

        New ones are not cached: the session's transaction may be rolled back. No other connection
        is used: a caller that holds one and waits for another could cause a deadlock.
        """
        numbers = {name: self._numbers[name] for name in names if name in self._numbers}
        if numbers.keys() < set(names):
            numbers |= await self._read(session, names)
        if missing := sorted(set(names) - numbers.keys()):
            columns = {"name": missing}
            await session.fetch_batch(
                "ledger.create_target", columns=columns, namespace=self._namespace
            )
            numbers |= await self._read(session, missing)
        return numbers

    async def _read(self, session: Session, names: Collection[str]) -> dict[str, int]:
        rows = await session.fetch_named("ledger.target_numbers", namespace=self._namespace)
        return {row["name"]: row["id"] for row in rows if row["name"] in names}

    async def named(self, numbers: Collection[int]) -> dict[int, TargetName]:
        """Targets of any namespace, by number."""
        rows = await self._database.fetch_named("ledger.target_names", numbers=list(numbers))
        return {row["id"]: TargetName(row["namespace"], row["name"]) for row in rows}

    async def namespaces(self, served: Sequence[str] | None) -> list[str]:
        """The namespaces among these, or all, that have a target or a key."""
        wanted = None if served is None else list(served)
        rows = await self._database.fetch_named("ledger.namespaces", served=wanted)
        return [row["namespace"] for row in rows]

    async def refresh(self) -> dict[int, str]:
        """Read the targets again; returns the names by number."""
        rows = await self._database.fetch_named("ledger.target_numbers", namespace=self._namespace)
        self._numbers = {row["name"]: row["id"] for row in rows}
        return {number: name for name, number in self._numbers.items()}
