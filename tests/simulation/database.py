"""One SQLite database that several simulated processes share, with duly's own statements."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw

from duly.errors import Conflict, StoreUnavailable
from duly.stores.database import Channel, Session
from duly.stores.sqlite.database import Sqlite
from duly.stores.sqlite.session import SqliteSession
from duly.stores.sqlite.writer import Work
from tests.simulation.network import Link

START = datetime(2026, 6, 1, 9, tzinfo=UTC)
BROKEN_SECONDS = 2.0
"""How long the server keeps the transaction of a process that died."""


class Server:
    """The database: one connection, one transaction at a time."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        self.connection.execute("pragma foreign_keys=on")
        self.writes = 0
        self._turns: deque[asyncio.Future[None]] = deque()
        self._holder: object = None

    def now(self) -> datetime:
        """The database's clock, which no fault touches."""
        return START + timedelta(seconds=asyncio.get_running_loop().time())

    async def run(self, work: Work) -> Any:
        """Do some work in a transaction of its own, when no other is open."""
        holder = object()
        await self.acquire(holder)
        try:
            return self._run(work)
        finally:
            self.release(holder)

    def _run(self, work: Work) -> Any:
        self.connection.execute("begin immediate")
        try:
            result = work(self.connection)
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("rollback")
            raise
        self.connection.execute("commit")
        self.writes += 1
        return result

    async def acquire(self, holder: object) -> None:
        """Wait for the turn of a transaction."""
        if self._holder is None and not self._turns:
            self._holder = holder
            return
        turn = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        try:
            await turn
        except BaseException:
            with suppress(ValueError):
                self._turns.remove(turn)
            if turn.done() and not turn.cancelled():
                self._next()
            raise
        self._holder = holder

    def release(self, holder: object) -> None:
        """End the turn; what was not committed is rolled back."""
        if self._holder is holder:
            if self.connection.in_transaction:
                self.connection.execute("rollback")
            self._next()

    def _next(self) -> None:
        self._holder = None
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                # Nobody else may begin before it wakes up.
                self._holder = turn
                turn.set_result(None)
                return


class SimulatedSqlite(Sqlite):
    """The database as one process sees it."""

    server: Server
    link: Link

    def __init__(self, path: Path, moment: Callable[[], datetime]) -> None:
        super().__init__(path, self.server.now)

    async def open(self) -> None:
        """There is no file."""

    async def close(self) -> None:
        """There is no file."""

    def own(self) -> None:
        """Several processes share it, as they share PostgreSQL."""

    def check_writable(self) -> None:
        """A write waits for its turn."""

    async def data_version(self) -> int:
        """How often it was written."""
        return await self.link.call(lambda: self.server.writes)

    async def write(self, work: Work, *, alone: bool = False) -> Any:
        """Run `work` in a transaction of its own."""
        await self.link.ask()
        result = await self.server.run(work)
        await self.link.hear()
        return result

    async def read(self, work: Work) -> Any:
        """Run `work`, which only reads."""
        return await self.write(work)

    @asynccontextmanager
    async def together(self, channel: Channel = "any", /) -> AsyncIterator[Session]:
        """Statements in one transaction."""
        held = await self.hold()
        try:
            yield held
            await held.commit()
        finally:
            held.let_go()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Any]:
        """Reads in one transaction."""
        async with self.together() as session:
            yield session

    async def hold(self, attempt: object = None) -> Any:
        """Begin a transaction, and keep others from writing."""
        held = HeldTurn(self)
        await self.link.ask()
        await self.server.acquire(held)
        held.begin()
        try:
            await self.link.hear()
        except BaseException:
            held.let_go()
            raise
        return held


class HeldTurn(SqliteSession):
    """A session in a transaction."""

    def __init__(self, database: SimulatedSqlite) -> None:
        super().__init__(database.server.now)
        self._database = database
        self._server, self._link = database.server, database.link
        self._is_over = self._is_broken = False
        self._watching: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """It has the turn now; the server ends it if the process does not."""
        self._server.connection.execute("begin immediate")
        self._watching = asyncio.get_running_loop().call_later(BROKEN_SECONDS, self._break)

    def holds(self, path: Path) -> bool:
        """Whether it still holds the turn."""
        return not self._is_over and self._database.path == path

    def _break(self) -> None:
        """The server hears nothing more of the process, and rolls back."""
        self._is_broken = True
        self.let_go()

    def _check(self) -> None:
        if self._is_broken:
            source = self._database.source
            raise StoreUnavailable("the server ended the transaction", source=source)
        if self._is_over:
            raise Conflict("the transaction is over; it ends with its handler or its block")

    async def write(self, work: Work, *, alone: bool = False) -> Any:
        """Run `work` inside the transaction."""
        self._check()

        def run() -> Any:
            self._check()
            self._server.connection.execute("savepoint work")
            try:
                result = work(self._server.connection)
            except BaseException:
                if self._server.connection.in_transaction:
                    self._server.connection.execute("rollback to work; release work")
                raise
            if self._server.connection.in_transaction:
                self._server.connection.execute("release work")
            return result

        return await self._link.call(run)

    async def read(self, work: Work) -> Any:
        """Run `work` inside the transaction."""
        return await self.write(work)

    async def commit(self) -> None:
        """Commit, and let others write."""

        def run() -> None:
            self._check()
            self._server.connection.execute("commit")
            self._server.writes += 1
            self.let_go()

        await self._link.call(run)

    def let_go(self) -> None:
        """Roll back unless committed, and let others write."""
        self._is_over = True
        if self._watching is not None:
            self._watching.cancel()
        self._server.release(self)
