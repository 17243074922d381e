"""A request to stop, for a process that is starting or working."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any


class Stop:
    """May be requested from a signal handler or a thread, also before there is an event loop."""

    def __init__(self) -> None:
        self.is_requested = False
        self.on_request: Callable[[], None] | None = None
        """Called on the first request, possibly in a signal handler."""
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def request(self) -> None:
        """Request the stop."""
        is_first, self.is_requested = not self.is_requested, True
        if is_first and self.on_request is not None:
            self.on_request()
        if self._waiting is not None:
            loop, event = self._waiting
            with suppress(RuntimeError):  # the loop is already closed
                loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        """Wait for the request; only one caller may wait at a time."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        self._waiting = loop, event
        try:
            if not self.is_requested:
                await event.wait()
        finally:
            self._waiting = None

    async def unless_requested(self, starting: Coroutine[Any, Any, None]) -> bool:
        """Run the coroutine, and cancel it if a stop is requested; whether it succeeded."""
        if self.is_requested:
            starting.close()
            return False
        task, requested = asyncio.ensure_future(starting), asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({task, requested}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            requested.cancel()
            if not task.done():
                task.cancel()
            await asyncio.wait({task, requested})
        if self.is_requested:
            # Its error does not matter any more.
            return not task.cancelled() and task.exception() is None
        task.result()
        return True
