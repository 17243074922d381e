"""Waiting for the ends of deliveries: callers share reads of the ledger."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

import msgspec

from duly.errors import StoreUnavailable
from duly.ports import Clock, Store

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
SHARE = 0.25
"""The pause between two reads for a caller, as a share of how long it has waited already."""


class Waiter(msgspec.Struct, eq=False):
    """A caller that waits for the end of a delivery; `ended` gets whether it came in time."""

    id: str
    since: float
    until: float
    ended: asyncio.Future[bool]
    next_at: float
    """When its delivery is looked at next."""

    def pause(self, now: float) -> float:
        """How long to wait before the next look."""
        return min(max((now - self.since) * SHARE, FIRST_PAUSE), LONGEST_PAUSE)


class Ends:
    """Reads every now and then which of the awaited deliveries have ended."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._waiters: set[Waiter] = set()
        self._task: asyncio.Task[None] | None = None
        self._sleep: asyncio.Task[None] | None = None

    async def wait(self, id: str, seconds: float) -> bool:
        """Wait until the delivery has ended or is gone; whether that was within some seconds."""
        self._store.check_loop()
        loop, now = asyncio.get_running_loop(), self._clock.monotonic()
        waiter = Waiter(id, now, now + seconds, loop.create_future(), now)
        self._waiters.add(waiter)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._watch())
        elif self._sleep is not None:
            self._sleep.cancel()
        try:
            return await waiter.ended
        finally:
            self._waiters.discard(waiter)

    def release(self) -> None:
        """Let all callers go on, as if their time were over."""
        self._answer(self._waiters, ended=False)

    async def stop(self) -> None:
        """Let all callers go on, and stop reading."""
        self.release()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _watch(self) -> None:
        try:
            while self._waiters:
                # A store that is away has ended nothing; the callers have their own limits.
                with contextlib.suppress(StoreUnavailable):
                    await self._look()
                now = self._clock.monotonic()
                self._answer([each for each in self._waiters if each.until <= now], ended=False)
                if self._waiters:
                    await self._rest(now)
        except Exception as error:
            for each in self._waiters:
                if not each.ended.done():
                    each.ended.set_exception(error)

    async def _look(self) -> None:
        now = self._clock.monotonic()
        # Those that are nearly due join: one read costs little more than another id in it.
        asked = [each for each in self._waiters if each.next_at <= now + each.pause(now) / 2]
        for each in asked:
            each.next_at = now + each.pause(now)
        unfinished = await self._store.deliveries.unfinished({each.id for each in asked})
        self._answer([each for each in asked if each.id not in unfinished], ended=True)

    async def _rest(self, now: float) -> None:
        """Sleep until the next look is due; a new caller ends the sleep."""
        next_at = min(min(each.next_at, each.until) for each in self._waiters)
        pause = max(next_at - now, FIRST_PAUSE)
        self._sleep = asyncio.ensure_future(self._clock.sleep(pause))
        try:
            await asyncio.wait([self._sleep])
        finally:
            self._sleep.cancel()
            self._sleep = None

    def _answer(self, waiters: Iterable[Waiter], *, ended: bool) -> None:
        answered = list(waiters)
        for each in answered:
            if not each.ended.done():
                each.ended.set_result(ended)
        self._waiters.difference_update(answered)
