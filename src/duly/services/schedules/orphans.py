"""Orphans: schedules that code declared and no longer declares.

A schedule is an orphan if its program has started without declaring it, and no live worker declares
it. Schedules that were made otherwise are never orphans.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from duly.domain import checks
from duly.domain.schedules import revisions
from duly.domain.schedules.revisions import Revision, Unclaimed
from duly.domain.schedules.schedule import StoredSchedule
from duly.errors import UnreadableRule
from duly.ports import Store
from duly.records.schedule import OrphanedSchedule
from duly.services.schedules.bulk import checked

BATCH = 100


class Orphans:
    """The orphans of one namespace."""

    def __init__(self, store: Store, actor: str) -> None:
        self._store = store
        self._actor = actor

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[OrphanedSchedule]:
        """Schedules that code declared and no longer declares, by name; they still deliver.

        `after` is the last name of the previous page.
        """
        start = checks.checked_start("after", after)
        return await self._store.declarations.orphans(start, checks.checked_limit(limit))

    async def remove(self, names: Sequence[str] | None = None) -> builtins.list[str]:
        """Remove all orphans, or those with these names; returns the names of the removed.

        Each is removed by itself, as `remove` does it; a schedule that is no orphan is kept.
        """
        wanted = None if names is None else set(checked(names, None)[0])
        found = [each async for each in self.all() if wanted is None or each.name in wanted]
        return [each.name for each in found if await self.remove_one(each)]

    async def all(self, program: str | None = None) -> AsyncIterator[OrphanedSchedule]:
        """All orphans, or those of one program."""
        after, is_full = "", True
        while is_full:
            page = await self._store.declarations.orphans(after, BATCH, program)
            for each in page:
                yield each
            is_full = len(page) == BATCH
            after = page[-1].name if page else after

    async def remove_one(self, orphan: OrphanedSchedule) -> bool:
        """Remove it, unless it is no orphan any more; whether it was removed."""
        detail = {"declared_in": orphan.declared_in}
        try:
            return await self._store.declarations.remove(orphan.name, _removed, self._actor, detail)
        except UnreadableRule:
            return False  # a newer version wrote it


def _removed(schedule: StoredSchedule | None, _: datetime, unclaimed: Unclaimed) -> Revision | None:
    return None if schedule is None else revisions.remove(schedule, untouched=unclaimed.next)
