"""The namespaces that this process works for, and maintenance in each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from duly.domain.schedules.planning import NewId
from duly.engine.maintenance import Prunable, ScheduleRepair
from duly.ports import Store

SEPARATOR = "\n"
"""Separates namespace and name in a cursor; neither can contain it."""


class ServedNamespaces:
    """Reads the namespaces each time: a new one may have been added."""

    def __init__(self, store: Store, served: Sequence[str] | None) -> None:
        self._store = store
        self._served = served

    async def namespaces(self) -> list[str]:
        """Their names, sorted."""
        found = set(await self._store.targets.namespaces(self._served))
        if self._served is None or self._store.namespace in self._served:
            found.add(self._store.namespace)
        return sorted(found)

    def within(self, namespace: str) -> Store:
        """The store of one of them."""
        return self._store.within(namespace)


class PrunableNamespaces:
    """One kind of prunable rows in every namespace."""

    def __init__(self, namespaces: ServedNamespaces, prunable: Callable[[Store], Prunable]) -> None:
        self._namespaces = namespaces
        self._prunable = prunable

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Prune at most a batch in each namespace; returns the largest number of rows removed."""
        pruned = 0
        for namespace in await self._namespaces.namespaces():
            prunable = self._prunable(self._namespaces.within(namespace))
            pruned = max(pruned, await prunable.prune(kept_for, batch))
        return pruned


class ScheduleRepairs:
    """Plans missing next occurrences of schedules, in every namespace."""

    def __init__(self, namespaces: ServedNamespaces, new_id: NewId) -> None:
        self._namespaces = namespaces
        self._new_id = new_id

    async def repair(self, after: str, batch: int) -> tuple[int, str | None]:
        """Repair one slice of one namespace; returns the number repaired, and the next cursor."""
        current, _, name = after.partition(SEPARATOR)
        left = [each for each in await self._namespaces.namespaces() if each >= current]
        if not left:
            return 0, None
        repair = ScheduleRepair(self._namespaces.within(left[0]).schedules, self._new_id)
        repaired, name_after = await repair.repair(name if left[0] == current else "", batch)
        if name_after is not None:
            return repaired, left[0] + SEPARATOR + name_after
        return repaired, left[1] + SEPARATOR if left[1:] else None
