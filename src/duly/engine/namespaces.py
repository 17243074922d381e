"""The namespaces that this process works for, and maintenance in each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from duly.domain.schedules.planning import NewId
from duly.engine.maintenance import Prune, repair_schedules
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

    async def prune(self, of: Callable[[Store], Prune], kept_for: timedelta, batch: int) -> int:
        """Prune at most a batch in each; returns the largest number of rows removed."""
        stores = [self._store.within(each) for each in await self.namespaces()]
        return max([await of(store)(kept_for, batch) for store in stores], default=0)

    async def repair(self, new_id: NewId, after: str, batch: int) -> tuple[int, str | None]:
        """Plan missing next occurrences in one slice of one namespace; see `Repair`."""
        current, _, name = after.partition(SEPARATOR)
        left = [each for each in await self.namespaces() if each >= current]
        if not left:
            return 0, None
        schedules, name = self._store.within(left[0]).schedules, name if left[0] == current else ""
        repaired, name_after = await repair_schedules(schedules, new_id, name, batch)
        if name_after is not None:
            return repaired, left[0] + SEPARATOR + name_after
        return repaired, left[1] + SEPARATOR if left[1:] else None
