"""Large work on the event loop, done in slices, so that other tasks can run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from duly.ports import Clock


class Turns:
    """Lets one request at a time do a slice at each turn of the event loop.

    Otherwise a hundred large requests would make every turn a hundred slices long.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Wait for the turn to do a slice."""
        async with self._lock:
            await self._clock.sleep(0)

    async def through(self, slices: Iterator[None]) -> None:
        """Do work that yields after each slice."""
        for _ in slices:
            await self.next()
