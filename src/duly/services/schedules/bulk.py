"""Bulk operations on schedules: paused or resumed, all that match.

Each schedule is changed by itself, as a single `pause` or `resume` does it. To pause, only those
match that are not paused, to resume only those that are: so it is safe to stop and repeat.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from duly.domain import checks
from duly.domain.schedules.schedule import StoredSchedule
from duly.errors import InvalidInput, NotFound, UnreadableRule
from duly.ports import Store, UnreadableSchedule
from duly.records.dead_letter import BulkProgress
from duly.records.schedule import ScheduleFilter
from duly.services.interruption import ended

BATCH = 100
Move = Callable[[str], Awaitable[Any]]
Chosen = Callable[[StoredSchedule], bool]


class BulkPauses:
    """Pauses or resumes the schedules that match; without a filter, all of them.

    `names` are those of schedules; `text` is a part of the name, in upper or lower case; `until`
    leaves out schedules that were created later.
    """

    def __init__(
        self,
        store: Store,
        pause: Callable[[str, str | None], Awaitable[Any]],
        resume: Callable[..., Awaitable[Any]],
    ) -> None:
        self._store = store
        self._pause = pause
        self._resume = resume

    async def count(
        self,
        *,
        names: Sequence[str] = (),
        text: str | None = None,
        until: datetime | None = None,
        paused: bool = False,
    ) -> int:
        """How many match and are not paused, or with `paused` are."""
        pages = self._pages(*checked(names, text), _chosen(until, paused=paused))
        return sum([len(page) async for page in pages])

    async def pause(
        self,
        *,
        names: Sequence[str] = (),
        text: str | None = None,
        until: datetime | None = None,
        reason: str | None = None,
    ) -> AsyncIterator[BulkProgress]:
        """Pause all that match; yields the progress."""
        total = await self.count(names=names, text=text, until=until)
        pages = self._pages(*checked(names, text), _chosen(until, paused=False))
        async for each in self._moved(pages, total, until, lambda name: self._pause(name, reason)):
            yield each

    async def resume(
        self,
        *,
        names: Sequence[str] = (),
        text: str | None = None,
        until: datetime | None = None,
        from_pause: bool = False,
    ) -> AsyncIterator[BulkProgress]:
        """Resume all that match; yields the progress."""

        def move(name: str) -> Awaitable[Any]:
            return self._resume(name, from_pause=from_pause)

        total = await self.count(names=names, text=text, until=until, paused=True)
        pages = self._pages(*checked(names, text), _chosen(until, paused=True))
        async for each in self._moved(pages, total, until, move):
            yield each

    async def _pages(
        self, names: Sequence[str], text: str | None, chosen: Chosen
    ) -> AsyncIterator[Sequence[str]]:
        """The names of those that match."""
        pages = self._named(names, text) if names else self._listed(text)
        async for page in pages:
            if found := [each.name for each in page if chosen(each)]:
                yield found

    async def _named(
        self, names: Sequence[str], text: str | None
    ) -> AsyncIterator[Sequence[StoredSchedule]]:
        part = (text or "").lower()
        for name in dict.fromkeys(names):
            try:
                schedule = await self._store.schedules.get(name)
            except (NotFound, UnreadableRule):
                continue  # it does not match
            if part in name.lower():
                yield [schedule]

    async def _listed(self, text: str | None) -> AsyncIterator[Sequence[StoredSchedule]]:
        after, is_full = "", True
        while is_full:
            page = await self._store.schedules.page(after, BATCH, ScheduleFilter(text=text))
            yield [each for each in page if not isinstance(each, UnreadableSchedule)]
            is_full = len(page) == BATCH
            after = page[-1].name if page else after

    async def _moved(
        self,
        pages: AsyncIterator[Sequence[str]],
        total: int,
        until: datetime | None,
        move: Move,
    ) -> AsyncIterator[BulkProgress]:
        now, _ = await self._store.plans.clock()
        done = 0
        async for page in pages:
            moved, cancelled = await ended(_move(page, move))
            done += moved
            yield BulkProgress(done=done, total=max(done, total), until=until or now)
            if cancelled is not None:
                raise cancelled


async def _move(page: Sequence[str], move: Move) -> int:
    moved = 0
    for name in page:
        try:
            await move(name)
        except NotFound:
            continue  # it was removed meanwhile
        moved += 1
    return moved


def _chosen(until: datetime | None, *, paused: bool) -> Chosen:
    last = None if until is None else checks.checked_moment("until", until)

    def is_chosen(schedule: StoredSchedule) -> bool:
        is_known = last is None or schedule.created_at <= last
        return is_known and (schedule.paused_at is not None) == paused

    return is_chosen


def checked(names: object, text: object) -> tuple[Sequence[str], str | None]:
    """The names and the part of a name, checked."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidInput("names", "give a list of names")
    part = None if text is None else checks.checked_text("text", text)
    return [checks.checked_text("names", each) for each in names], part
