"""Hints between processes that something became due; a lost hint costs at most one poll."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from duly.errors import StoreUnavailable
from duly.ports import Clock
from duly.stores.postgres.connections import AWAY, CONNECT_SECONDS
from duly.stores.postgres.database import Postgres
from duly.stores.sqlite.database import Sqlite

CHANNEL = "duly"
NOTIFY = "select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"
"""A hint need not be durable, so the commit does not wait for the disk."""
GAP_SECONDS = 0.005
"""At most one notification is sent in this time. Notifications are never sent within the
transactions they are about: NOTIFY holds a global lock until its commit is on disk."""


class Notifications:
    """LISTEN and NOTIFY, both on the dedicated connection if there is one."""

    def __init__(
        self,
        database: Postgres,
        namespace: str,
        clock: Clock,
        root: Notifications | None = None,
    ) -> None:
        self._database = database
        self._namespace = namespace
        self._clock = clock
        self.served: Sequence[str] | None = [namespace]
        """The namespaces whose hints are received; None for all."""
        self._root = root or self
        """The instance that listens in this process."""
        self._ear: Any = None
        self._callback: Callable[[], None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._sent_at = float("-inf")
        self._send_again = False

    def within(self, namespace: str) -> Notifications:
        """The notifications of another namespace, sent on the same connections."""
        return Notifications(self._database, namespace, self._clock, self._root)

    def hint(self) -> None:
        """Notify that something is runnable now; hints within `GAP_SECONDS` are merged."""
        self._root._wake(self._namespace)
        if self._database.pooler:
            return
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())
        else:
            self._send_again = True

    async def _send(self) -> None:
        while True:
            self._send_again = False
            wait = self._sent_at + GAP_SECONDS - self._clock.monotonic()
            if wait > 0:
                await self._clock.sleep(wait)
            self._sent_at = self._clock.monotonic()
            try:
                async with self._database.listening.use() as connection:
                    await connection.execute(NOTIFY, CHANNEL, self._namespace)
            except StoreUnavailable:
                return  # a hint may be lost
            if not self._send_again:
                return

    def listen(self, callback: Callable[[], None]) -> None:
        """Set the callback for hints; it takes effect with the next `check`."""
        self._callback = callback

    async def check(self) -> bool:
        """Listen for hints, reconnecting if needed; False if that is not possible."""
        if self._callback is None or not self._database.listening.has_place:
            return False
        async with self._database.listening.alone() as connection:
            if connection is None:
                return False
            if connection is not self._ear:
                await connection.add_listener(CHANNEL, self._on_notification)
                self._ear = connection
                self._callback()
        return True

    def _on_notification(
        self, _connection: Any, _process: int, _channel: str, payload: str
    ) -> None:
        self._wake(payload)

    def _wake(self, namespace: str) -> None:
        is_served = self.served is None or namespace in self.served
        if is_served and self._callback is not None:
            self._callback()

    async def fall_silent(self) -> None:
        """Send the last hint and stop sending."""
        sending, self._sending = self._sending, None
        if sending is not None:
            # It may be the only hint for a delivery that was just accepted.
            await asyncio.wait([sending], timeout=CONNECT_SECONDS)
            sending.cancel()

    async def close(self) -> None:
        """Stop listening and sending."""
        await self.fall_silent()
        listener, self._ear = self._ear, None
        if listener is not None and not listener.is_closed():
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await listener.remove_listener(CHANNEL, self._on_notification)
            except AWAY:
                listener.terminate()


class DataVersion:
    """Hints on SQLite: a changed `data_version` for other processes, a callback within this one."""

    def __init__(self, database: Sqlite) -> None:
        self.served: Sequence[str] | None = None
        """Not used: an unneeded wake-up costs less than finding out the namespace of a hint."""
        self._database = database
        self._callback: Callable[[], None] | None = None
        self._version: int | None = None

    def within(self, namespace: str) -> DataVersion:  # noqa: ARG002 - all share the file
        """This object: the process that owns the file serves all its namespaces."""
        return self

    def hint(self) -> None:
        """Notify that something is runnable now."""
        if self._callback is not None:
            self._callback()

    def listen(self, callback: Callable[[], None]) -> None:
        """Set the callback for hints of this process and, in `check`, for writes of others."""
        self._callback = callback

    async def check(self) -> bool:
        """Call back if another process has written."""
        version = await self._database.data_version()
        if version != self._version and self._callback is not None:
            self._callback()
        self._version = version
        return True

    async def fall_silent(self) -> None:
        """Do nothing: no hint is waiting."""

    async def close(self) -> None:
        """Do nothing: it holds no connection."""
