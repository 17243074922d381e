"""How a process that works is asked to stop, whatever it is doing just then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any


class Stop:
    """A wish to stop, which may come from a signal or a thread, and before there is a loop."""

    def __init__(self) -> None:
        self.is_wished = False
        self.on_wish: Callable[[], None] | None = None
        """Called with the first wish, be it in a signal's handler."""
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def wish(self) -> None:
        """Ask whoever waits to stop."""
        is_first, self.is_wished = not self.is_wished, True
        if is_first and self.on_wish is not None:
            self.on_wish()
        if self._waiting is not None:
            loop, event = self._waiting
            with suppress(RuntimeError):  # the loop is over already
                loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        """Wait until it is wished; for one at a time."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        self._waiting = loop, event
        try:
            if not self.is_wished:
                await event.wait()
        finally:
            self._waiting = None

    async def unless_wished(self, starting: Coroutine[Any, Any, None]) -> bool:
        """Run it to its end, or until it is wished that it be given up; whether it ended."""
        if self.is_wished:
            starting.close()
            return False
        task, wished = asyncio.ensure_future(starting), asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({task, wished}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            wished.cancel()
            if not task.done():
                task.cancel()
            await asyncio.wait({task, wished})
        if self.is_wished:
            # Whoever stops does not want to know what would have become of it.
            return not task.cancelled() and task.exception() is None
        task.result()
        return True
