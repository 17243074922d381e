"""The stay of an App or a Client on the background loop: opened, in use, closed, handed over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from duly.errors import Conflict, DulyError, OtherEventLoop
from duly.sync.background import BACKGROUND


class Resident(Protocol):
    """An App or a Client: it belongs to at most one event loop at a time."""

    @property
    def is_open(self) -> bool: ...
    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop to which it belongs; StoreUnavailable if that is the parent process's."""

    def check_movable(self) -> None:
        """Conflict if it cannot be opened on the background loop."""

    def settle_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let it belong to this event loop, after it was closed."""

    async def until_open(self) -> None:
        """Wait while it is being opened."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...


class Moved(DulyError):
    """It belongs to another event loop now; the call has not begun."""


class BackgroundStay:
    """Opens a resident for its first call, and counts those in progress.

    Only the thread of the background loop uses it.
    """

    def __init__(self, resident: Resident) -> None:
        self._resident = resident
        self._calls = 0
        self.blocks = 0
        self.changed = asyncio.Event()
        self._leaving: asyncio.Event | None = None

    def begin_at_once(self) -> bool:
        """Count a call, if the resident is open."""
        is_here = self._leaving is None and self in BACKGROUND.guests
        if is_here and self._resident.is_open and not BACKGROUND.is_paused:
            self._calls += 1
            return True
        return False

    async def begin(self) -> None:
        """Open it if it is not open; Moved if it belongs to another event loop now."""
        await self.open(self._resident.open)

    async def arrive(self) -> None:
        """Count a call; waits while the resident is being handed over."""
        while self._leaving is not None:
            await self._leaving.wait()
        if BACKGROUND.is_paused:
            raise Moved  # to the loop after the fork
        self._calls += 1

    async def open(self, open: Callable[[], Awaitable[object]]) -> None:
        """Open it, for a call in progress."""
        await self.arrive()
        # First: a fork and the end of the process close also what is being opened.
        BACKGROUND.guests.add(self)
        try:
            await open()
        except OtherEventLoop as error:
            BACKGROUND.guests.discard(self)
            self.end()
            raise Moved from error
        except BaseException:
            self.end()
            raise

    async def open_only(self, open: Callable[[], Awaitable[object]]) -> None:
        """Open it, without a call that follows."""
        await self.open(open)
        self.end()

    def end(self) -> None:
        """Count a call as ended."""
        self._calls -= 1
        if self._leaving is not None:
            self.changed.set()

    async def leave(self, to: asyncio.AbstractEventLoop | None = None) -> None:
        """Close it when its calls have ended, and hand it over to another event loop.

        Conflict if a block or an iterator is open: that may take any time.
        """
        while self._leaving is not None:
            await self._leaving.wait()
        self._leaving = leaving = asyncio.Event()
        try:
            while self._calls:
                if self.blocks:
                    raise Conflict(
                        "this App is in use through app.sync in another thread, in a `with` block "
                        "or an iterator; end that first"
                    )
                self.changed = asyncio.Event()  # of this loop
                await self.changed.wait()
            await self.close()
            if to is not None:
                self._resident.settle_on(to)
        finally:
            self._leaving = None
            leaving.set()

    async def close(self) -> None:
        """Close it at once."""
        BACKGROUND.guests.discard(self)
        if self._resident.event_loop is BACKGROUND.loop:
            await self._resident.close()


class BlockStay:
    """The same for a block or an iterator, which may last."""

    def __init__(self, stay: BackgroundStay, *, opens: bool) -> None:
        self._stay = stay
        self._opens = opens

    def begin_at_once(self) -> bool:
        """False: `begin` counts the block."""
        return False

    async def begin(self) -> None:
        """Count the block, and open the resident if it is not open."""
        if self._opens:
            await self._stay.begin()
        else:
            await self._stay.arrive()
        self._stay.blocks += 1
        self._stay.changed.set()

    def end(self) -> None:
        """Count the block as ended."""
        self._stay.blocks -= 1
        self._stay.end()


class Arrival:
    """Waits for a resident that is being opened on its own event loop."""

    def __init__(self, resident: Resident) -> None:
        self._resident = resident

    def begin_at_once(self) -> bool:
        """False: it is not open yet."""
        return False

    async def begin(self) -> None:
        """Wait until it is open."""
        await self._resident.until_open()

    def end(self) -> None:
        """Do nothing: its owner closes it."""
