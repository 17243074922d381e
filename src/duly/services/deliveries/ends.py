"""Waiting for the ends of deliveries: all callers share one read of the ledger."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from duly.errors import StoreUnavailable
from duly.ports import Clock, Store

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
SHARE = 0.25
"""The pause between two reads, as a share of how long the latest caller has waited already."""


class Waiter(msgspec.Struct, eq=False):
    """A caller that waits for the end of a delivery; `ended` gets whether it came in time."""

    id: str
    since: float
    until: float
    ended: asyncio.Future[bool]


class Ends:
    """Reads every now and then which of the awaited deliveries have ended."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._waiters: set[Waiter] = set()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, id: str, seconds: float) -> bool:
        """Wait until the delivery has ended or is gone; whether that was within some seconds."""
        self._store.check_loop()
        loop, now = asyncio.get_running_loop(), self._clock.monotonic()
        waiter = Waiter(id, now, now + seconds, loop.create_future())
        self._waiters.add(waiter)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._watch())
        try:
            return await waiter.ended
        finally:
            self._waiters.discard(waiter)

    def release(self) -> None:
        """Let all callers go on, as if their time were over."""
        for each in self._waiters:
            _answer(each, ended=False)

    async def stop(self) -> None:
        """Let all callers go on, and stop reading."""
        self.release()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _watch(self) -> None:
        while self._waiters:
            # A store that is away has ended nothing; the callers have their own limits.
            with contextlib.suppress(StoreUnavailable):
                await self._look()
            if self._waiters:
                await self._clock.sleep(self._pause())

    async def _look(self) -> None:
        asked = list(self._waiters)
        unfinished = await self._store.deliveries.unfinished({each.id for each in asked})
        now = self._clock.monotonic()
        for each in asked:
            if each.id not in unfinished:
                _answer(each, ended=True)
            elif each.until <= now:
                _answer(each, ended=False)
        # Those that have their answer leave by themselves, a moment later.
        self._waiters.difference_update(each for each in asked if each.ended.done())

    def _pause(self) -> float:
        now = self._clock.monotonic()
        waited = min(now - each.since for each in self._waiters)
        left = min(each.until for each in self._waiters) - now
        pause = min(max(waited * SHARE, FIRST_PAUSE), LONGEST_PAUSE)
        return max(min(pause, left), 0.0)


def _answer(waiter: Waiter, *, ended: bool) -> None:
    if not waiter.ended.done():
        waiter.ended.set_result(ended)
