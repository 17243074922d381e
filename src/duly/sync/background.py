"""The event loop of this process for synchronous calls, in a thread of its own.

It is started by the first call, and ends with the process. Before a fork it is closed, with all
that is open on it: connections and threads cannot be shared with a child. Afterwards the next call
in each process starts it again.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol

from duly.errors import Conflict
from duly.sync.calls import Calls
from duly.system import join_fully

CLOSE_SECONDS = 10.0
"""How long the end of the process waits for everything to close."""
FORK_SECONDS = 10.0
"""How long a fork waits for calls in progress to end, and for connections to close."""


NO_LOOP: Any = None


class Guest(Protocol):
    """An App or a Client that is open on the background loop."""

    async def leave(self, to: asyncio.AbstractEventLoop | None = None) -> None:
        """Close it when its calls have ended; Conflict if a block or an iterator is open."""

    async def close(self) -> None:
        """Close it at once."""


class Background(Calls):
    """The event loop for synchronous calls; there is one in a process."""

    def __init__(self) -> None:
        super().__init__(NO_LOOP)
        self.guests: set[Guest] = set()
        self._thread: threading.Thread | None = None
        self._changing = threading.Lock()
        """Held while the loop is started or ended, and during a fork."""
        self.is_paused = False
        """Whether a fork waits for the calls in progress; no other call begins."""
        self._inherited: list[object] = []

    @property
    def is_alive(self) -> bool:
        """Whether the calls can still be answered: also during a fork, and by the next loop."""
        return self._thread is None or self._thread.is_alive()

    def start_all(self) -> None:
        """Start the waiting calls, unless a fork waits for those in progress."""
        if self.is_paused:
            self.expect_nobody()
        else:
            super().start_all()

    def _wake(self) -> None:
        with self._changing:
            if not self._is_woken and self._waiting:
                self._wake_loop()

    def _wake_loop(self) -> None:
        if self._thread is None:
            self._start()
        super()._wake()

    def _start(self) -> None:
        # Imported by the first call: uvloop would make `import duly` a third slower.
        from duly.sync.loop import ThreadedLoop

        self.loop = ThreadedLoop()
        self._thread = threading.Thread(
            target=_run_loop, args=(self.loop,), name="duly-sync", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Close everything and end the loop."""
        with self._changing:
            if self._thread is not None:
                self._run(self._close_guests, CLOSE_SECONDS)
                self._end()

    async def _close_guests(self) -> None:
        while self.guests:
            with suppress(Exception):
                await self.guests.pop().close()

    def before_fork(self) -> None:
        """Close everything that is open on the loop, and end it."""
        self._changing.acquire()
        if self._thread is None or self._thread is threading.current_thread():
            return
        self.is_paused = True
        if self._run(self._leave_all, FORK_SECONDS):
            self._end()
        self.is_paused = False

    async def _leave_all(self) -> bool:
        for guest in list(self.guests):
            try:
                await guest.leave()
            except Conflict:
                return False
        return True

    def after_fork_in_parent(self) -> None:
        """Run the calls that waited meanwhile."""
        if self._waiting:
            self._wake_loop()
        self._changing.release()

    def after_fork_in_child(self) -> None:
        """Begin anew; what could not be closed is left alone."""
        if self._thread is not None:
            # Closing the inherited loop would disturb the parent's, which shares its descriptors.
            self._inherited += [self.loop, *self.guests]
            self._thread, self.loop = None, NO_LOOP
        self.guests.clear()
        self._waiting.clear()
        self._answered.clear()
        self._timer, self.is_paused = None, False
        self.expect_nobody()
        self._changing.release()

    def _run(self, make: Callable[[], Any], seconds: float) -> Any:
        """The result of a coroutine on the loop; None if it failed or took too long."""
        done: Future[Any] = asyncio.run_coroutine_threadsafe(make(), self.loop)
        try:
            return done.result(seconds)
        except Exception:
            done.cancel()
            return None

    def _end(self) -> None:
        assert self._thread is not None
        self.loop.call_soon_threadsafe(self.loop.stop)
        join_fully(self._thread, CLOSE_SECONDS)
        self._thread = None
        self.expect_nobody()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    # The runner cancels the tasks that are left, and closes the loop.
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
        # Blocks that nobody has left are closed now, the inner ones perhaps before the outer ones,
        # whose generators then complain.
        loop.set_exception_handler(lambda _loop, _context: None)


BACKGROUND = Background()
atexit.register(BACKGROUND.close)
os.register_at_fork(
    before=BACKGROUND.before_fork,
    after_in_parent=BACKGROUND.after_fork_in_parent,
    after_in_child=BACKGROUND.after_fork_in_child,
)
