"""The event loop that a store belongs to, from its first use until it is closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from duly.errors import OtherEventLoop, StoreUnavailable


class HomeLoop:
    """Refuses every other loop: whoever waits there for this one's answer would wait for ever."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._admitted: set[asyncio.AbstractEventLoop] = set()
        self._binding = threading.Lock()
        self._is_closed = False

    def check(self) -> None:
        """Raise OtherEventLoop unless the store belongs to the running loop.

        One that was never opened belongs to the first that uses it; one that was closed to nobody,
        or a task that outlives the closing would open connections that the next loop finds.
        """
        if asyncio.get_running_loop() is not self._loop:
            if self._loop is None and self._is_closed:
                raise StoreUnavailable("the store is not open: open the App first")
            self.enter()

    def enter(self) -> None:
        """Take the running loop as home; OtherEventLoop when another one is."""
        with self._binding:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
        self.refuse_others()

    def refuse_others(self) -> None:
        """Raise OtherEventLoop when another loop is home."""
        home, running = self._loop, asyncio.get_running_loop()
        if home not in (None, running) and running not in self._admitted:
            raise OtherEventLoop(has_ended=home.is_closed())

    @contextmanager
    def admitting(self) -> Iterator[None]:
        """Let the running loop use the store beside home, for a heartbeat."""
        running = asyncio.get_running_loop()
        self._admitted.add(running)
        try:
            yield
        finally:
            self._admitted.discard(running)

    def leave(self) -> None:
        """Belong to nobody, after all was closed."""
        self._loop, self._is_closed = None, True
