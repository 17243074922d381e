"""A worker's lease, and the heartbeat that renews it from its own thread and connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from duly.engine.loops import wait
from duly.ports import Clock, Store, Workers

BEATS_PER_LEASE = 3
STOP_SECONDS = 5.0


class Lease:
    """Whether this worker may still start work.

    Read and written from two threads; each attribute is a single value, so no lock is needed.
    """

    def __init__(self, worker: int, seconds: float, clock: Clock) -> None:
        self.worker = worker
        self.seconds = seconds
        self.lost = False
        self.draining = False
        """Whether an operator asked this worker to drain: it starts nothing more."""
        self._monotonic = clock.monotonic
        self._renewed_at = clock.monotonic()

    def renew(self, asked_at: float) -> None:
        """The store renewed the lease, counted from the moment of the request."""
        self._renewed_at = asked_at

    def holds(self) -> bool:
        """Whether no other worker can have declared this one dead."""
        return not self.lost and self._monotonic() - self._renewed_at < self.seconds


class Heartbeat:
    """Renews the lease in its own thread, so that a blocked event loop does not lose it.

    If the store can be used on one event loop only, it runs there.
    """

    def __init__(
        self, lease: Lease, store: Store, clock: Clock, on_lost: Callable[[], None]
    ) -> None:
        self._lease = lease
        self._store = store
        self._clock = clock
        self._on_lost = on_lost
        self._home = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._on_stop: Callable[[], object] | None = None
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run_thread, name="duly-heartbeat", daemon=True)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to renew the lease."""
        if self._store.one_loop:
            self._task = self._home.create_task(self._beat())
        else:
            self._thread.start()

    async def stop(self) -> None:
        """Stop, and wait a little for the end; not in a thread: handlers may use all of them."""
        self._stop.set()
        if self._on_stop is not None:
            with suppress(RuntimeError):  # its loop is already closed
                self._on_stop()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=STOP_SECONDS)
        else:
            await wait(self._ended, STOP_SECONDS)

    def _run_thread(self) -> None:
        try:
            asyncio.run(self._beat())
        finally:
            with suppress(RuntimeError):
                self._home.call_soon_threadsafe(self._ended.set)

    async def _beat(self) -> None:
        interval = self._lease.seconds / BEATS_PER_LEASE
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        # Set before `_stop` is checked, so that a concurrent `stop` is never missed.
        self._on_stop = partial(loop.call_soon_threadsafe, stopping.set)
        while not self._stop.is_set() and not self._lease.lost:
            async with self._store.beside() as workers:
                while not self._stop.is_set():
                    if not await self._once(workers):
                        return
                    pause = interval if self._lease.holds() else min(interval, 0.5)
                    await wait(stopping, pause)

    async def _once(self, workers: Workers) -> bool:
        asked_at = self._clock.monotonic()
        try:
            # A hanging connection must not cost the lease: the next heartbeat opens another one.
            async with asyncio.timeout(self._lease.seconds / BEATS_PER_LEASE):
                alive = await workers.beat(self._lease.worker)
                if alive:
                    self._lease.draining = await workers.is_draining(self._lease.worker)
        except Exception:
            # One failed heartbeat does no harm; if the loop ended, the lease would be lost.
            return True
        if alive:
            self._lease.renew(asked_at)
            return True
        self._lease.lost = True
        self._home.call_soon_threadsafe(self._on_lost)
        return False
