"""Bulk operations on unfinished deliveries: cancelled, or retried now, all that match a filter.

They go through the list page by page, newest first. Each delivery is moved by itself, as a single
`cancel` or `retry` does it, so that streams stay in order. One that runs meanwhile is skipped.

To continue, repeat it with the same filter and the `until` of its progress: a delivery that was
retried and failed again is not retried a second time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial

import msgspec

from duly.errors import Conflict, InvalidInput
from duly.ports import Filter, Store
from duly.records.dead_letter import BulkProgress
from duly.records.delivery import Delivery
from duly.records.state import State
from duly.records.status import COUNTED_UP_TO
from duly.services.interruption import ended

BATCH = 100
Move = Callable[[str, str | None], Awaitable[Delivery]]


class PendingMoves:
    """Moves the pending deliveries that match."""

    def __init__(self, store: Store, actor: str | None) -> None:
        self._store = store
        self._actor = actor

    async def count(self, filter: Filter, *, waiting: bool = False) -> int:
        """How many match, up to 10,000; with `waiting`, only those that are due later."""
        found = 0
        async for page in self._pages(filter, await self._now(), waiting=waiting):
            found += len(page)
            if found >= COUNTED_UP_TO:
                return COUNTED_UP_TO
        return found

    async def cancel(self, filter: Filter) -> AsyncIterator[BulkProgress]:
        """Cancel all that match; yields the progress."""
        running = filter.state is State.PROCESSING
        cancel = partial(self._store.deliveries.cancel, running=running)
        async for progress in self._moved(filter, cancel, waiting=False):
            yield progress

    async def retry(self, filter: Filter) -> AsyncIterator[BulkProgress]:
        """Make all that match, and are due later, due now; yields the progress."""
        async for progress in self._moved(filter, self._store.deliveries.retry, waiting=True):
            self._store.wakeups.hint()
            yield progress

    async def _now(self) -> datetime:
        now, _ = await self._store.plans.clock()
        return now

    async def _pages(
        self, filter: Filter, now: datetime, *, waiting: bool
    ) -> AsyncIterator[Sequence[Delivery]]:
        """Those that match and were accepted by now; if `waiting`, only those due later."""
        if filter.state not in (None, State.PENDING, State.PROCESSING):
            raise InvalidInput("state", "only pending and processing ones are moved; leave it out")
        if waiting and filter.state is State.PROCESSING:
            raise InvalidInput("state", "only waiting deliveries are retried so; leave it out")
        until = _until(filter, now)
        fixed = {"state": filter.state or State.PENDING, "limit": BATCH, "payloads": False}
        filter = msgspec.structs.replace(filter, **fixed)
        while True:
            page, next = await self._store.deliveries.page(filter)
            known = [each for each in page if each.accepted_at <= until]
            if wanted := [each for each in known if not waiting or _waits(each, now, until)]:
                yield wanted
            if next is None:
                return
            filter = msgspec.structs.replace(filter, before=next)

    async def _moved(
        self, filter: Filter, move: Move, *, waiting: bool
    ) -> AsyncIterator[BulkProgress]:
        now, done = await self._now(), 0
        total = await self.count(filter, waiting=waiting)
        # A count that reached its limit says nothing about the end: some may be left.
        uncounted = 1 if total >= COUNTED_UP_TO else 0
        async for page in self._pages(filter, now, waiting=waiting):
            moved, cancelled = await ended(self._move(page, move))
            done += moved
            if moved:
                most = max(done + uncounted, total)
                yield BulkProgress(done=done, total=most, until=_until(filter, now))
            if cancelled is not None:
                raise cancelled

    async def _move(self, page: Sequence[Delivery], move: Move) -> int:
        moved = 0
        for each in page:
            try:
                await move(each.id, self._actor)
            except Conflict:
                continue  # it runs, or is at its end already
            moved += 1
        return moved


def _until(filter: Filter, now: datetime) -> datetime:
    return now if filter.until is None else min(filter.until, now)


def _waits(delivery: Delivery, now: datetime, until: datetime) -> bool:
    """Whether it is due later, and was not attempted after `until`."""
    is_attempted = delivery.started_at is not None and delivery.started_at > until
    return (delivery.next_at or delivery.due_at) > now and not is_attempted
