"""Large work on the event loop, done in slices: others get their turn after each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from duly.ports import Clock


class Turns:
    """Who does large work next: of all requests together, one does a slice at a turn of the loop.

    If each waited for its own next turn only, a hundred large requests would make every turn a
    hundred slices long.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._line = asyncio.Lock()

    async def next(self) -> None:
        """Wait for a turn to do a slice in."""
        async with self._line:
            await self._clock.sleep(0)

    async def through(self, slices: Iterator[None]) -> None:
        """Do work that stops after each slice."""
        for _ in slices:
            await self.next()
