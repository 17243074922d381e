"""This process as a worker: its number, its lease and its heartbeat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from duly.domain.events import WorkerStarted
from duly.engine.lease import Heartbeat, Lease
from duly.ports import Clock, Emit, Store
from duly.settings import Settings


class Membership:
    """Registers the worker, and a new one whenever its lease was lost.

    The number is 0 before the first registration, and in a process that is not a worker.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        handlers: Callable[[], Sequence[str]],
        name: str,
        emit: Emit,
        *,
        beating: bool,
        schedules: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.lease = Lease(0, settings.lease, clock)
        """The current lease; a new object after each registration."""
        self.lost = asyncio.Event()
        """Set when the heartbeat learns that the worker was declared dead."""
        self._store = store
        self._clock = clock
        self._settings = settings
        self._handlers = handlers
        self._schedules = schedules
        self._name = name
        self._emit = emit
        self._beating = beating
        self._heartbeat: Heartbeat | None = None

    @property
    def worker(self) -> int:
        """The worker's number."""
        return self.lease.worker

    @property
    def is_beating(self) -> bool:
        """Whether a heartbeat renews the lease."""
        return self._heartbeat is not None

    async def register(self) -> None:
        """Become a new worker with a lease of its own."""
        await self.stop_beating()
        settings, handlers = self._settings, sorted(self._handlers())
        asked_at = self._clock.monotonic()
        worker = await self._store.workers.register(
            self._name,
            settings.lease,
            settings.concurrency,
            handlers,
            self._schedules(),
            settings.generation or None,
        )
        lease = Lease(worker, settings.lease, self._clock)
        lease.renew(asked_at)
        self.lease = lease
        if self._beating:
            self._heartbeat = Heartbeat(lease, self._store, self._clock, self.lost.set)
            self._heartbeat.start()
        self._emit(
            WorkerStarted(worker=worker, concurrency=settings.concurrency, handlers=handlers)
        )

    async def beat_once(self) -> None:
        """Renew the lease once, if there is no heartbeat."""
        lease, asked_at = self.lease, self._clock.monotonic()
        lease.lost = not await self._store.workers.beat(lease.worker)
        lease.draining = await self._store.workers.is_draining(lease.worker)
        lease.renew(asked_at)

    async def stop_beating(self) -> None:
        """Stop the heartbeat; the lease runs out unless the worker ends before."""
        if self._heartbeat is not None:
            await self._heartbeat.stop()
            self._heartbeat = None

    async def end(self) -> None:
        """Unregister: other workers reclaim at once what is still held."""
        await self._store.workers.end(self.worker)
