"""A worker's lease, and the heart that renews it from a thread and connection of its own."""

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
        """Somebody asked that it start nothing more."""
        self._clock = clock
        self._renewed_at = clock.monotonic()

    def renew(self, asked_at: float) -> None:
        """The store confirmed the lease; it counts from when it was asked."""
        self._renewed_at = asked_at

    def holds(self) -> bool:
        """Whether nobody can have taken this worker for dead."""
        return not self.lost and self._clock.monotonic() - self._renewed_at < self.seconds


class Heartbeat:
    """Beats on its own thread, so that a blocked event loop does not lose the lease.

    Where the store can be used on one loop only, it has to beat there.
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
        self._thread = threading.Thread(target=self._live, name="duly-heart", daemon=True)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to beat."""
        if self._store.one_loop:
            self._task = self._home.create_task(self._beat())
        else:
            self._thread.start()

    async def stop(self) -> None:
        """End it; waits for that a little, and in no thread: handlers may have taken them all."""
        self._stop.set()
        if self._on_stop is not None:
            with suppress(RuntimeError):  # its loop is over already
                self._on_stop()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=STOP_SECONDS)
        else:
            await wait(self._ended, STOP_SECONDS)

    def _live(self) -> None:
        try:
            asyncio.run(self._beat())
        finally:
            with suppress(RuntimeError):
                self._home.call_soon_threadsafe(self._ended.set)

    async def _beat(self) -> None:
        interval = self._lease.seconds / BEATS_PER_LEASE
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        # Named before looking whether to stop, so that either this or `stop` sees the other.
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
            # A connection that hangs must not cost the lease: the next beat opens another.
            async with asyncio.timeout(self._lease.seconds / BEATS_PER_LEASE):
                alive = await workers.beat(self._lease.worker)
                if alive:
                    self._lease.draining = await workers.is_draining(self._lease.worker)
        except Exception:
            # A beat that failed is only a beat missed; a heart that stopped would never be missed.
            return True
        if alive:
            self._lease.renew(asked_at)
            return True
        self._lease.lost = True
        self._home.call_soon_threadsafe(self._on_lost)
        return False
