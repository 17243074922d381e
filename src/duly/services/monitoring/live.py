"""Live counts, read once a second for all listeners."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime
from typing import Self

from duly.domain.monitoring.rollups import MINUTE, Span, grown
from duly.errors import Busy, StoreUnavailable
from duly.ports import Clock, Store
from duly.records.stats import Counts, Second
from duly.records.status import NamespaceStatus

SECONDS = 1.0
REMEMBERED = 300
"""The seconds that a listener who reconnects can catch up on."""
MOST_UNREAD = REMEMBERED
"""The most that are kept for a listener who does not read; older ones are dropped."""
MOST_LISTENERS = 100
MOST_REPORTS = 50
LINGER = 60
"""How many seconds it continues without listeners: they may reconnect."""
LOOKED_BACK = 3 * MINUTE


class TooManyListen(Busy):
    """The most listeners are connected already; try again later."""


class Live:
    """Reads the counts every second while there are listeners."""

    def __init__(
        self, store: Store, look: Callable[[], Awaitable[NamespaceStatus]], clock: Clock
    ) -> None:
        self._store = store
        self._look = look
        self._sleep = clock.sleep
        self._minutes: dict[datetime, Counts] | None = None
        self._past: deque[Second] = deque(maxlen=REMEMBERED)
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None
        self._unheard = 0

    async def listen(self, after: int | None = None) -> AsyncIterator[Second]:
        """One event a second from now on; with `after`, first those kept since that id."""
        listener = self.join(after)
        try:
            async for second in listener:
                yield second
        finally:
            self.leave(listener)

    def join(self, after: int | None = None) -> Listener:
        """A listener to iterate over, and then to `leave`; TooManyListen if there are too many.

        It counts as connected at once, so that concurrent calls cannot exceed the limit.
        OtherEventLoop if the App belongs to another event loop than the running one.
        """
        self._store.check_loop()
        if len(self._listeners) >= MOST_LISTENERS:
            raise TooManyListen(
                f"{MOST_LISTENERS} listeners are connected already; try again later"
            )
        listener = Listener(each for each in self._past if after is not None and each.id > after)
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        return listener

    def leave(self, listener: Listener) -> None:
        """Remove a listener; safe to repeat."""
        self._listeners.discard(listener)

    async def tick(self) -> None:
        """Read the counts once, and pass them to all listeners."""
        now = await self._look()
        span = Span(now.at - LOOKED_BACK, now.at + MINUTE, MINUTE)
        minutes = await self._store.rollups.series(span)
        tally = Counts() if self._minutes is None else grown(minutes, self._minutes)
        self._minutes = minutes
        second = Second(
            id=self._next_id(now.at),
            at=now.at,
            counts=tally,
            due=now.due,
            late=now.late,
            processing=now.processing,
            dead_letters=now.dead,
            oldest_due_seconds=now.oldest_due_seconds,
            workers=now.workers,
            progress=await self._store.running.reported(MOST_REPORTS),
        )
        self._past.append(second)
        for listener in self._listeners:
            listener.put(second)

    def _next_id(self, at: datetime) -> int:
        # Seconds since 1970, so that a listener who reconnects to another process gets no repeats.
        second = int(at.timestamp())
        return max(second, self._past[-1].id + 1) if self._past else second

    async def _run(self) -> None:
        try:
            await self._look_every_second()
        except Exception:
            # The next `join` starts it again; the present listeners would wait for ever.
            self._end_all()
            raise

    async def _look_every_second(self) -> None:
        self._unheard = 0
        while self._unheard < LINGER:
            with contextlib.suppress(StoreUnavailable):
                await self.tick()
            await self._sleep(SECONDS)
            self._unheard = 0 if self._listeners else self._unheard + 1
        self._minutes = None

    async def stop(self) -> None:
        """End all listeners."""
        self._end_all()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            # Ignores an earlier error of the task: stopping continues.
            await asyncio.wait([task])

    def _end_all(self) -> None:
        for listener in self._listeners:
            listener.put(None)


class Listener:
    """One listener with its unread events; it ends when the server stops."""

    def __init__(self, first: Iterable[Second]) -> None:
        self._unread: deque[Second | None] = deque(first, maxlen=MOST_UNREAD)
        self._some = asyncio.Event()

    def put(self, second: Second | None) -> None:
        """Add an event; None ends the listener."""
        self._unread.append(second)
        self._some.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Second:
        while not self._unread:
            self._some.clear()
            await self._some.wait()
        second = self._unread.popleft()
        if second is None:
            raise StopAsyncIteration
        return second
