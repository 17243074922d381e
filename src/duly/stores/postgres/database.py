"""PostgreSQL as a database: one connection each for claiming and settling, a pool for the rest.

Nothing here waits without a time limit. A connection on which an error occurred is closed, and the
next call opens a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from functools import cache
from typing import Any

import asyncpg

from duly.domain.moments import all_microseconds, microseconds
from duly.errors import BadSetting, StoreUnavailable
from duly.stores.database import Channel, NamedRow, Row, Session
from duly.stores.event_loop import HomeLoop
from duly.stores.postgres.address import PostgresAddress
from duly.stores.postgres.connections import (
    BASE,
    BRIEF,
    COMMAND_SECONDS,
    CONNECT_SECONDS,
    IDLE_LIMIT,
    CallersError,
    Connect,
    Connection,
    Discard,
    NoSlot,
    Setup,
    Source,
    apart,
    clear_errors,
    startup_errors,
)
from duly.stores.postgres.dedicated import Dedicated
from duly.stores.postgres.pool import Level, OnShort, Pool
from duly.stores.statements import Statement, statements

PLANNER_SETTINGS = (
    *("enable_seqscan", "enable_bitmapscan", "jit", "plan_cache_mode", "enable_nestloop"),
    "idle_in_transaction_session_timeout",
)
# A query plan made while the tables were small must still be good at a million rows. Every
# statement of the hot path has an index for each table it reads, so sequential scans are never
# needed.
PLANNER = Setup(
    "set enable_seqscan = off; set enable_bitmapscan = off; set jit = off;"
    "set plan_cache_mode = force_generic_plan; set enable_nestloop = off;" + IDLE_LIMIT,
    ";".join(f"reset {each}" for each in PLANNER_SETTINGS),
)
LOCK_SECONDS = 20.0
"""How long a statement of a handler waits for a lock; less than `COMMAND_SECONDS`."""
TRIES = 5
FEWEST = 6
"""The fewest connections of a worker: one each for claiming, settling and the heartbeat, and a pool
with one for every level. If the server has even fewer, tasks wait for each other, but with a time
limit."""
ENOUGH_TO_LISTEN = 7
"""With fewer connections a worker polls and does not reserve one for LISTEN."""

# For reading the ledger slice by slice: it may have grown since the last ANALYZE.
READER = "set local enable_seqscan = off; set local plan_cache_mode = force_custom_plan"

# Claims skip rows that others have locked. With serializable as the default isolation, PostgreSQL
# would refuse them again and again.
SETTINGS = {
    "application_name": "duly",
    "default_transaction_isolation": "read committed",
    # Queries have limits that the cost estimates ignore: JIT compilation took 65 ms of 77.
    "jit": "off",
}
AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)


class PostgresSession:
    """Runs named statements on one connection."""

    def __init__(self, connection: Connection, moment: Callable[[], datetime | None]) -> None:
        self.connection = connection
        self.moment = moment
        self._statements = statements("postgres")

    async def fetch(
        self, statement: str, channel: Channel = "any", /, **parameters: Any
    ) -> Sequence[Row]:
        """Run a statement once; rows are positional."""
        found = self._statements[statement]
        rows: Sequence[Row] = await self._fetch(channel, found, self._bound(found, parameters))
        return rows

    async def fetch_named(
        self, statement: str, channel: Channel = "any", /, **parameters: Any
    ) -> Sequence[NamedRow]:
        """Run a statement that only reads; rows are by column name."""
        found = self._statements[statement]
        rows: Sequence[NamedRow] = await self._fetch(channel, found, self._bound(found, parameters))
        return rows

    async def fetch_batch(
        self,
        statement: str,
        channel: Channel = "any",
        /,
        *,
        columns: Mapping[str, Sequence[Any]],
        **parameters: Any,
    ) -> Sequence[Row]:
        """Run a statement once, with the columns as arrays."""
        return await self.fetch(statement, channel, **columns, **parameters)

    def _bound(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Any]:
        return [
            self.moment() if name == "now" else _sent(parameters[name], name in statement.literals)
            for name in statement.parameters
        ]

    async def _fetch(
        self,
        channel: Channel,  # noqa: ARG002 - this session is one connection
        statement: Statement,
        bound: Sequence[Any],
    ) -> Any:
        with clear_errors():
            return await self.connection.fetch(statement.text, *bound)


def _sent(value: Any, as_text: bool) -> Any:
    if as_text:
        return array_text(value)
    if isinstance(value, list) and value and value.count(None) == len(value):
        return None  # unnest fills the column with nulls, so nothing is sent
    return value


def array_text(values: Sequence[Any]) -> str:
    """An array of ids, numbers or moments in PostgreSQL's text form; moments in microseconds.

    Texts are not quoted, so they must not need quotes.
    """
    if None in values:
        return "{" + ",".join("null" if each is None else _text(each) for each in values) + "}"
    if values and isinstance(values[0], datetime):
        values = all_microseconds(values)
    return "{" + ",".join(map(str, values)) + "}"


def _text(value: Any) -> str:
    return str(microseconds(value) if isinstance(value, datetime) else value)


def handler_setup(worker: int, *, local: bool = False) -> Setup:
    """Settings of a handler's transaction.

    By this name the transaction is ended if the worker is declared dead.
    """
    word = "set local" if local else "set"
    return Setup(
        f"{word} application_name = 'duly worker {worker}'; "
        f"{word} lock_timeout = '{LOCK_SECONDS:g}s'",
        "reset application_name; reset lock_timeout",
    )


class Postgres(PostgresSession):
    """This process's connections to one PostgreSQL database."""

    refusals: tuple[type[Exception], ...] = (
        asyncpg.IntegrityConstraintViolationError,
        asyncpg.DataError,
    )

    def __init__(
        self,
        connect: Connect,
        discard: Discard,
        moment: Callable[[], datetime | None],
        *,
        connections: int,
        on_short: OnShort,
        pooler: bool = False,
        one_loop: bool = False,
    ) -> None:
        super().__init__(None, moment)
        self.pooler = pooler
        self.one_loop = one_loop
        self.connections = connections
        self.home = HomeLoop()
        self.workers_loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the worker's connections."""
        self.connect = self.source = connect
        self.discard = discard
        # A pooler or a caller's pool limits the connections itself.
        self._source = Source(connect, discard, counts_slots=not (pooler or one_loop))
        self._pool = Pool(self._source, connections, on_short)
        self._planner = BASE if pooler else PLANNER
        self._brief = BASE if pooler else BRIEF
        self._handler = (0, BASE)
        claim = Dedicated(self._source, self._pool, self._planner, is_fallback=True)
        settle = Dedicated(self._source, self._pool, self._planner)
        self._dedicated: dict[Channel, Dedicated] = {"claim": claim, "settle": settle}
        self.listening = Dedicated(self._source, self._pool, BASE, is_extra=True)

    async def reserve(self) -> None:
        """Open the connections that a worker needs at all times, and keep them."""
        if self.connections < FEWEST:
            raise BadSetting(
                "pool" if self.one_loop else "connections",
                f"{self.connections} connections are not enough for a worker, which needs "
                f"{FEWEST}" + (f": give a pool of {SMALLEST_POOL} or more" * self.one_loop),
            )
        self.workers_loop = asyncio.get_running_loop()
        self.listening.has_place = not self.pooler and self.connections >= ENOUGH_TO_LISTEN
        # Without the two dedicated ones, the heartbeat's and the listener's.
        self._pool.size = self.connections - len(self._dedicated) - 1 - self.listening.has_place
        self._pool.fallback = self._dedicated["claim"].use
        for each in self._dedicated.values():
            each.has_place = True
            async with each.use():
                pass

    async def _fetch(self, channel: Channel, statement: Statement, bound: Sequence[Any]) -> Any:
        for tries_left in reversed(range(TRIES)):
            try:
                async with self._for(channel, None) as connection:
                    return await connection.fetch(statement.text, *bound)
            except AGAIN as error:
                if not tries_left:
                    raise StoreUnavailable(
                        f"PostgreSQL gave up: {error}", source=self.source
                    ) from error
        raise AssertionError("unreachable")

    def _for(
        self, channel: Channel, setup: Setup | None
    ) -> AbstractAsyncContextManager[Connection]:
        self.home.check()
        dedicated = self._dedicated.get(channel)
        if dedicated is not None:
            return dedicated.use()
        if channel == "batch":
            return self._pool.use(Level.BATCH, BASE)
        return self._pool.use(Level.STATEMENT, self._planner if channel == "plan" else setup)

    def shared(self) -> AbstractAsyncContextManager[Connection]:
        """One of the pool's connections, for a single statement."""
        self.home.check()
        return self._pool.use(Level.STATEMENT)

    def lent(self, worker: int | None = None) -> AbstractAsyncContextManager[Connection]:
        """A connection for a handler of the worker, for the duration of an attempt."""
        self.home.check()
        if worker is None or self.pooler:
            return self._pool.use(Level.HANDLER, BASE)
        if self._handler[0] != worker:
            self._handler = (worker, handler_setup(worker))
        return self._pool.use(Level.HANDLER, self._handler[1])

    def kept(self) -> AbstractAsyncContextManager[Connection]:
        """A connection for a caller, for the duration of its transaction."""
        self.home.check()
        return self._pool.use(Level.BLOCK, BASE)

    @asynccontextmanager
    async def together(self, channel: Channel = "any", /) -> AsyncIterator[Session]:
        """Statements in one transaction."""
        try:
            async with self._for(channel, self._brief) as connection, connection.transaction():
                with apart():
                    yield PostgresSession(connection, self.moment)
        except CallersError as wrapped:
            raise wrapped.error from wrapped.error.__cause__
        except AGAIN as error:
            raise StoreUnavailable(
                "two transactions waited for each other, and this one was undone; try it again",
                source=self.source,
            ) from error

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Session]:
        """Read-only statements that see the data as of the first of them."""
        try:
            async with (
                self.kept() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                await connection.execute(READER)
                with apart():
                    yield PostgresSession(connection, self.moment)
        except CallersError as wrapped:
            raise wrapped.error from wrapped.error.__cause__

    async def close(self) -> None:
        """Close every connection."""
        for each in (*self._dedicated.values(), self.listening):
            await each.close()
        await self._pool.close()


class Beside(Postgres):
    """The same database on one separate connection, for the event loop of another thread.

    If the server has no slot left, its statements run on the connections of the main database, on
    their event loop.
    """

    def __init__(self, database: Postgres) -> None:
        super().__init__(
            database.connect,
            database.discard,
            database.moment,
            connections=1,
            on_short=lambda _open, _problem: None,
            pooler=database.pooler,
            one_loop=database.one_loop,
        )
        self._database = database

    async def _fetch(self, channel: Channel, statement: Statement, bound: Sequence[Any]) -> Any:
        try:
            return await super()._fetch(channel, statement, bound)
        except NoSlot:
            home = self._database.workers_loop
            fetching = self._database._fetch(channel, statement, bound)
            if home is None or home is asyncio.get_running_loop():
                return await fetching
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(fetching, home))


def from_place(place: PostgresAddress, *, pooler: bool) -> tuple[Connect, Discard]:
    """Opens connections to the database at an address."""
    context = cache(place.context)  # loading the authorities takes longer than connecting
    has_connected = False

    async def connect() -> Connection:
        nonlocal has_connected
        verifies = place.verified is not None
        with startup_errors(pooler=pooler, verifies=verifies, is_first=not has_connected):
            connection = await asyncpg.connect(
                place.dsn,
                timeout=place.connect_seconds or CONNECT_SECONDS,
                command_timeout=COMMAND_SECONDS,
                statement_cache_size=0 if pooler else 200,
                server_settings=({} if pooler else SETTINGS) | place.settings,
                ssl=context(),
            )
        has_connected = True
        return connection

    return connect, _close


def from_factory(factory: Connect) -> tuple[Connect, Discard]:
    """Opens connections with the caller's function."""
    return factory, _close


SMALLEST_POOL = 8
"""The smallest size of a caller's pool that is enough for a worker."""


def from_pool(pool: Any) -> tuple[Connect, Discard]:
    """Takes connections from the caller's pool; duly keeps them for long."""

    async def connect() -> Connection:
        try:
            return await pool.acquire(timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            raise NoSlot("the pool has no connection left; make it larger") from error

    return connect, pool.release


def share_of(pool: Any, most: int) -> int:
    """How many connections of a caller's pool to use: at least two, and a third, are left."""
    size: int = pool.get_max_size()
    return max(1, min(most, size - max(2, size // 3)))


async def _close(connection: Connection) -> None:
    if not connection.is_closed():
        await connection.close(timeout=CONNECT_SECONDS)
