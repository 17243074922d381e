"""The namespaces that this process works for, and the slow work that is done in each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from duly.domain.schedules.planning import NewId
from duly.engine.maintenance import Memory, Mender
from duly.ports import Store

SEPARATOR = "\n"
"""Between namespace and name in a cursor; neither can contain it."""


class ServedNamespaces:
    """Finds the namespaces as they come: a tenant may be new since the last look."""

    def __init__(self, store: Store, served: Sequence[str] | None) -> None:
        self._store = store
        self._served = served

    async def namespaces(self) -> list[str]:
        """Their names, in order."""
        found = set(await self._store.targets.namespaces(self._served))
        if self._served is None or self._store.namespace in self._served:
            found.add(self._store.namespace)
        return sorted(found)

    def within(self, namespace: str) -> Store:
        """The store of one of them."""
        return self._store.within(namespace)


class Memories:
    """One kind of memory in every namespace, as one."""

    def __init__(self, territory: ServedNamespaces, memory: Callable[[Store], Memory]) -> None:
        self._territory = territory
        self._memory = memory

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Forget at most a batch in each namespace; returns the most that one of them forgot."""
        forgotten = 0
        for namespace in await self._territory.namespaces():
            memory = self._memory(self._territory.within(namespace))
            forgotten = max(forgotten, await memory.prune(kept_for, batch))
        return forgotten


class Menders:
    """Gives schedules of every namespace back the next occurrence that they lack."""

    def __init__(self, territory: ServedNamespaces, new_id: NewId) -> None:
        self._territory = territory
        self._new_id = new_id

    async def mend(self, after: str, batch: int) -> tuple[int, str | None]:
        """Mend one slice of one namespace; returns how many were mended, and where to go on."""
        current, _, name = after.partition(SEPARATOR)
        left = [each for each in await self._territory.namespaces() if each >= current]
        if not left:
            return 0, None
        mender = Mender(self._territory.within(left[0]).schedules, self._new_id)
        mended, name_after = await mender.mend(name if left[0] == current else "", batch)
        if name_after is not None:
            return mended, left[0] + SEPARATOR + name_after
        return mended, left[1] + SEPARATOR if left[1:] else None
