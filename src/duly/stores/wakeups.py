"""Hints between processes that something became due. Losing all of them costs one poll."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from duly.domain.errors import StoreUnavailable
from duly.ports import Clock
from duly.stores.postgres import AWAY, CONNECT_SECONDS, Line, Postgres
from duly.stores.sqlite import Sqlite

CHANNEL = "duly"
GAP_SECONDS = 0.005
"""At most one notification in this time. They go out beside the transactions, never in them: a
notification holds a lock that everyone who notifies waits for, until its commit is on disk."""


class Notifications:
    """LISTEN and NOTIFY, each on a connection of its own."""

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
        self._voice: Line = (
            Line(database.connect, database.discard, "set synchronous_commit = off")
            if root is None
            else root._voice
        )
        self._ear: Any = None
        self._callback: Callable[[], None] | None = None
        self._speaking: asyncio.Task[None] | None = None
        self._said_at = float("-inf")
        self._again = False

    def within(self, namespace: str) -> Notifications:
        """Those of another namespace, spoken on the same connection."""
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
                async with self._voice.use() as connection:
                    await connection.execute("select pg_notify($1, $2)", CHANNEL, self._namespace)
            except StoreUnavailable:
                return  # it was only a hint
            if not self._again:
                return

    def listen(self, callback: Callable[[], None]) -> None:
        """Call back on every hint; `check` makes it so."""
        self._callback = callback

    async def check(self) -> bool:
        """See that hints can be heard, connecting anew if need be; False where they cannot."""
        if self._callback is None or self._database.pooler:
            return False
        if self._ear is None or self._ear.is_closed():
            try:
                self._ear = await self._database.connect()
                await self._ear.add_listener(CHANNEL, self._heard)
            except AWAY as error:
                raise StoreUnavailable(f"PostgreSQL cannot be reached: {error}") from error
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
        if self._speaking is not None:
            # The last hint may be the only one for what was just accepted.
            await asyncio.wait([self._speaking], timeout=CONNECT_SECONDS)
            self._speaking.cancel()

    async def close(self) -> None:
        """Stop listening and speaking."""
        await self.fall_silent()
        await self._voice.close()
        if self._ear is not None:
            ear, self._ear = self._ear, None
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    if not ear.is_closed():
                        await ear.remove_listener(CHANNEL, self._heard)
                    await self._database.discard(ear)
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
