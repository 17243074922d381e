"""A read that many callers share, so that its cost does not grow with their number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Generic, TypeVar

from duly.errors import StoreUnavailable
from duly.ports import Clock

FRESH_SECONDS = 1.0
"""How old a result may be."""
REST = 10
"""Or how many times as old as its read took: on a large backlog that is long."""
LONGEST_SECONDS = 5.0
"""How old it may be in any case: probes of readiness rely on it."""

T = TypeVar("T")


class SharedRead(Generic[T]):
    """Reads for a small part of the time, however many callers ask."""

    def __init__(
        self, read: Callable[[], Coroutine[Any, Any, T]], clock: Clock, *, rest: float = REST
    ) -> None:
        self._read = read
        self._clock = clock
        self._rest = rest
        self._read_at, self._took = float("-inf"), 0.0
        self._reading: asyncio.Task[T] | None = None

    async def __call__(self, within: float | None = None, age: float = FRESH_SECONDS) -> T:
        """The result, or the error of the read, which concurrent callers share.

        A cheap one is not older than `age` seconds. StoreUnavailable also if it takes longer than
        `within` seconds.
        """
        reading = self._reading
        if reading is None or self._is_old(reading, age):
            # Others share the result, so it must not be read in this caller's transaction.
            reading = asyncio.get_running_loop().create_task(self._look(), context=Context())
            reading.add_done_callback(_retrieve_error)
            self._reading = reading
        done, _ = await asyncio.wait((reading,), timeout=within)
        if not done:
            raise StoreUnavailable(f"the store has not answered within {within:g} s")
        if reading.cancelled():
            raise StoreUnavailable("the App was closed during the read")
        return reading.result()

    async def stop(self) -> None:
        """Give up a read in progress, which would otherwise outlive its connection."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait((reading,))

    def _is_old(self, reading: asyncio.Task[T], age: float) -> bool:
        if not reading.done():
            return False
        if reading.cancelled() or reading.exception() is not None:
            return True
        return self._clock.monotonic() - self._read_at >= max(
            age, min(self._took * self._rest, LONGEST_SECONDS)
        )

    async def _look(self) -> T:
        began = self._clock.monotonic()
        found = await self._read()
        self._read_at = self._clock.monotonic()
        self._took = self._read_at - began
        return found


def _retrieve_error(reading: asyncio.Task[Any]) -> None:
    """Retrieve the error: if all callers timed out, asyncio would warn that nobody did."""
    if not reading.cancelled():
        reading.exception()
