"""Hints between processes that something became due. Losing all of them costs one poll."""

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
"""Nobody waits for a hint to be on disk."""
GAP_SECONDS = 0.005
"""At most one notification in this time. They go out beside the transactions, never in them: a
notification holds a lock that everyone who notifies waits for, until its commit is on disk."""


class Notifications:
    """LISTEN and NOTIFY, both on one connection where there is one to listen on."""

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
        """Whose hints are listened for; None for everybody's."""
        self._root = root or self
        """Whoever listens in this process."""
        self._ear: Any = None
        self._callback: Callable[[], None] | None = None
        self._speaking: asyncio.Task[None] | None = None
        self._said_at = float("-inf")
        self._again = False

    def within(self, namespace: str) -> Notifications:
        """Those of another namespace, spoken on the same connections."""
        return Notifications(self._database, namespace, self._clock, self._root)

    def hint(self) -> None:
        """Say that something is runnable now; merged with others."""
        self._root._notice(self._namespace)
        if self._database.pooler:
            return
        if self._speaking is None or self._speaking.done():
            self._speaking = asyncio.get_running_loop().create_task(self._speak())
        else:
            self._again = True

    async def _speak(self) -> None:
        while True:
            self._again = False
            wait = self._said_at + GAP_SECONDS - self._clock.monotonic()
            if wait > 0:
                await self._clock.sleep(wait)
            self._said_at = self._clock.monotonic()
            try:
                async with self._database.listening.use() as connection:
                    await connection.execute(NOTIFY, CHANNEL, self._namespace)
            except StoreUnavailable:
                return  # it was only a hint
            if not self._again:
                return

    def listen(self, callback: Callable[[], None]) -> None:
        """Call back on every hint; `check` makes it so."""
        self._callback = callback

    async def check(self) -> bool:
        """See that hints can be heard, connecting anew if need be; False where they cannot."""
        if self._callback is None or not self._database.listening.has_place:
            return False
        async with self._database.listening.alone() as connection:
            if connection is None:
                return False
            if connection is not self._ear:
                await connection.add_listener(CHANNEL, self._heard)
                self._ear = connection
                self._callback()
        return True

    def _heard(self, _connection: Any, _process: int, _channel: str, payload: str) -> None:
        self._notice(payload)

    def _notice(self, namespace: str) -> None:
        is_served = self.served is None or namespace in self.served
        if is_served and self._callback is not None:
            self._callback()

    async def fall_silent(self) -> None:
        """Say what is left to be said."""
        speaking, self._speaking = self._speaking, None
        if speaking is not None:
            # The last hint may be the only one for what was just accepted.
            await asyncio.wait([speaking], timeout=CONNECT_SECONDS)
            speaking.cancel()

    async def close(self) -> None:
        """Stop listening and speaking."""
        await self.fall_silent()
        ear, self._ear = self._ear, None
        if ear is not None and not ear.is_closed():
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await ear.remove_listener(CHANNEL, self._heard)
            except AWAY:
                ear.terminate()


class DataVersion:
    """SQLite tells when another process wrote; this one knows its own hints."""

    def __init__(self, database: Sqlite) -> None:
        self.served: Sequence[str] | None = None
        """Not asked: a look too many costs less than to find out whose hint it is."""
        self._database = database
        self._callback: Callable[[], None] | None = None
        self._version: int | None = None

    def within(self, namespace: str) -> DataVersion:  # noqa: ARG002 - all share the file
        """Those of another namespace: the one process that owns the file works for it too."""
        return self

    def hint(self) -> None:
        """Say that something is runnable now."""
        if self._callback is not None:
            self._callback()

    def listen(self, callback: Callable[[], None]) -> None:
        """Call back on every hint of this process, and after `check` for those of others."""
        self._callback = callback

    async def check(self) -> bool:
        """Look whether another process wrote."""
        version = await self._database.data_version()
        if version != self._version and self._callback is not None:
            self._callback()
        self._version = version
        return True

    async def fall_silent(self) -> None:
        """Nothing is left to be said."""

    async def close(self) -> None:
        """Nothing to let go of."""
