"""The stored limits of targets: those of handlers, which code declares, and those of endpoints."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from duly.domain.endpoints.limits import DeclaredLimits, KeyLimits, LimitUse, StoredLimits
from duly.records.limit import PerKey
from duly.stores.access.audit import note
from duly.stores.database import Database, NamedRow, Session
from duly.stores.endpoints.targets import Targets


class Limits:
    """The limits of one namespace; `declare`, `add` and `by_target` also reach others."""

    def __init__(self, database: Database, namespace: str, targets: Targets) -> None:
        self._database = database
        self._namespace = namespace
        self._targets = targets

    async def declare(
        self, declared: Mapping[str, DeclaredLimits], served: Sequence[str] | None, actor: str
    ) -> None:
        """Store the limits of handlers; if they are stored already, nothing is written."""
        limited = [name for name, each in declared.items() if not each.is_none]
        await self._targets.numbers(limited, create=True)
        if not await self._different(self._database, declared, served):
            return
        async with self._database.together() as session:
            changed = await self._different(session, declared, served)
            new = {each.target: declared[each.name] for each in changed}
            await _write(session, new, again=True)
            for each in changed:
                detail = msgspec.to_builtins(declared[each.name])
                await note(session, each.namespace, actor, "limits.declared", each.name, detail)

    async def _different(
        self,
        session: Session,
        declared: Mapping[str, DeclaredLimits],
        served: Sequence[str] | None,
    ) -> list[StoredLimits]:
        """The handlers for which something else is stored, or nothing."""
        within = None if served is None else sorted({*served, self._namespace})
        rows = await session.fetch_named("limits.declared", names=list(declared), served=within)
        found = (stored_of(row) for row in rows)
        return [each for each in found if each.limits != declared[each.name]]

    async def add(self, declared: Mapping[int, DeclaredLimits]) -> None:
        """Store limits of targets that have no row yet."""
        await _write(self._database, declared, again=False)

    async def by_target(self, served: Sequence[str] | None) -> dict[int, DeclaredLimits]:
        """All limits in the served namespaces, or in all, by the numbers of the targets."""
        return {each.target: each.limits for each in await self._all(served)}

    async def key_limits(self, served: Sequence[str] | None) -> dict[int, KeyLimits]:
        """The limits for each key, by the numbers of the targets that have such."""
        found = ((each.target, each.key_limits) for each in await self._all(served))
        return {target: each for target, each in found if each is not None}

    async def _all(self, served: Sequence[str] | None) -> list[StoredLimits]:
        within = None if served is None else list(served)
        rows = await self._database.fetch_named("limits.all", served=within)
        return [stored_of(row) for row in rows]

    async def get(self, target: str) -> StoredLimits | None:
        """The limits of one target, None if it has none."""
        rows = await self._database.fetch_named(
            "limits.get", namespace=self._namespace, name=target
        )
        return stored_of(rows[0]) if rows else None

    async def page(self, after: str, limit: int) -> list[StoredLimits]:
        """Targets that have limits, by name."""
        rows = await self._database.fetch_named(
            "limits.page", namespace=self._namespace, after=after, limit=limit
        )
        return [stored_of(row) for row in rows]

    async def use(
        self, targets: Collection[int], most: int
    ) -> tuple[dict[int, LimitUse], datetime | None]:
        """How many deliveries of each target run and wait, and the time of the count."""
        rows = await self._database.fetch_named("limits.use", targets=list(targets), most=most)
        found = {row["target"]: LimitUse(row["in_flight"], row["waiting"]) for row in rows}
        return found, rows[0]["seen_at"] if rows else None


async def _write(session: Session, new: Mapping[int, DeclaredLimits], *, again: bool) -> None:
    columns: dict[str, list[Any]] = {"target": list(new)}
    rows = [limit_columns(each) for each in new.values()]
    columns |= {name: [row[name] for row in rows] for name in limit_columns(DeclaredLimits())}
    if new:
        await session.fetch_batch("limits.declare", columns=columns, again=again)


def limit_columns(limits: DeclaredLimits) -> dict[str, Any]:
    """The columns of all limits of a target."""
    return {"rate": limits.rate, "in_flight": limits.in_flight, **key_columns(limits.per_key)}


def key_columns(per_key: PerKey | None) -> dict[str, Any]:
    """The columns of the limits for each key."""
    if per_key is None:
        return {"key_name": None, "key_rate": None, "key_in_flight": None}
    return {
        "key_name": per_key.name,
        "key_rate": per_key.rate,
        "key_in_flight": per_key.in_flight,
    }


def per_key_of(row: NamedRow) -> PerKey | None:
    """The limits for each key, from their columns."""
    if row["key_name"] is None:
        return None
    return PerKey(row["key_name"], row["key_in_flight"], row["key_rate"])


def stored_of(row: NamedRow) -> StoredLimits:
    """The limits of a target, from their row."""
    return StoredLimits(
        target=row["target"],
        namespace=row["namespace"],
        name=row["name"],
        limits=DeclaredLimits(row["rate"], row["in_flight"], per_key_of(row)),
        declared_at=row["declared_at"],
        paced_at=row["paced_at"],
    )
