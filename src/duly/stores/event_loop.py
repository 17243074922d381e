"""The event loop that a store belongs to, from its first use until it is closed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from duly.errors import OtherEventLoop, StoreUnavailable


class HomeLoop:
    """Refuses use from any other event loop, which would wait for this one forever."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._admitted: set[asyncio.AbstractEventLoop] = set()
        self._binding = threading.Lock()
        self._is_closed = False
        self._process = os.getpid()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that the store is bound to; StoreUnavailable if that is the parent process's."""
        if self._loop is not None and self._process != os.getpid():
            raise StoreUnavailable(
                "this App was in use when this process was forked, and a child cannot use its "
                "parent's connections; make a new App here, or close it before the fork"
            )
        return self._loop

    def check(self) -> None:
        """Raise OtherEventLoop unless the store belongs to the running loop.

        A store that was never opened belongs to the first loop that uses it. A closed store belongs
        to none: otherwise a task that is still running could open connections that would be left
        for the next loop.
        """
        if asyncio.get_running_loop() is not self._loop:
            if self._loop is None and self._is_closed:
                raise StoreUnavailable("the store is not open: open the App first")
            self.enter()

    def enter(self) -> None:
        """Bind the store to the running loop; OtherEventLoop if it is bound to another."""
        with self._binding:
            if self._loop is None:
                self.settle_on(asyncio.get_running_loop())
        self.refuse_others()

    def settle_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Bind the store, which is closed, to a loop."""
        self._loop, self._process = loop, os.getpid()

    def refuse_others(self) -> None:
        """Raise OtherEventLoop if the store is bound to another loop."""
        home, running = self._loop, asyncio.get_running_loop()
        if home not in (None, running) and running not in self._admitted:
            raise OtherEventLoop(has_ended=home.is_closed())

    @contextmanager
    def admitting(self) -> Iterator[None]:
        """Let the running loop also use the store; used by the heartbeat thread."""
        running = asyncio.get_running_loop()
        self._admitted.add(running)
        try:
            yield
        finally:
            self._admitted.discard(running)

    def leave(self) -> None:
        """Unbind the store from its loop, after it was closed."""
        self._loop, self._is_closed = None, True
