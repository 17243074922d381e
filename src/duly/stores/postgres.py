"""PostgreSQL as a database: a connection for each overlapping call, a few to share.

Nothing here waits without a deadline, and a connection on which anything went wrong is dropped
rather than trusted: the next call opens a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any

import asyncpg

from duly.domain.errors import BadSetting, StoreUnavailable
from duly.stores.database import Channel, NamedRow, Row, Session
from duly.stores.statements import Statement, statements

Connection = Any  # asyncpg's connection, or a pool's stand-in for one
Connect = Callable[[], Awaitable[Connection]]
Discard = Callable[[Connection], Awaitable[None]]

SHARED = 8
WHOLE = 4
LENT = 8
PLANS = 2
CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 30.0
TRIES = 5

# A plan made while the tables were tiny must still be right at a million rows: every statement of
# the hot path has an index for each table it touches, so scans are never the answer.
PLANNER = (
    "set enable_seqscan = off; set enable_bitmapscan = off; set jit = off;"
    "set plan_cache_mode = force_generic_plan; set enable_nestloop = off"
)

# Of a ledger that is read slice by slice: it may have grown since anybody counted.
READER = "set local enable_seqscan = off; set local plan_cache_mode = force_custom_plan"

# Claims pass over what others hold; a database whose transactions are serializable as it comes
# would refuse them for it again and again.
SETTINGS = {
    "application_name": "duly",
    "default_transaction_isolation": "read committed",
    # What is asked is bounded by limits, which estimates do not see: compiling it took 65 ms of 77.
    "jit": "off",
}

AWAY = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.InvalidSQLStatementNameError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    asyncio.IncompleteReadError,
)
AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)


@contextmanager
def clear_errors(source: object = None) -> Iterator[None]:
    """Tell a database that is away, and which one, from a fault of ours."""
    try:
        yield
    except AWAY as error:
        raise away(error, source) from error
    except StoreUnavailable as error:
        error.source = error.source or source
        raise


def away(error: BaseException, source: object) -> StoreUnavailable:
    """What a driver's error means when it says that the database cannot be used."""
    reason = str(error) or type(error).__name__
    return StoreUnavailable(f"PostgreSQL cannot be reached or refused: {reason}", source=source)


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
        return None  # unnest fills the column with nulls, and nothing needs to be sent
    return value


def array_text(values: Sequence[Any]) -> str:
    """An array of ids, numbers or moments in PostgreSQL's text form; moments in microseconds.

    Texts go in as they are: only such that need no quotes.
    """
    if None in values:
        return "{" + ",".join("null" if each is None else _text(each) for each in values) + "}"
    if values and isinstance(values[0], datetime):
        values = [round(each.timestamp() * 1_000_000) for each in values]
    return "{" + ",".join(map(str, values)) + "}"


def _text(value: Any) -> str:
    return str(round(value.timestamp() * 1_000_000) if isinstance(value, datetime) else value)


class Line:
    """One connection, opened when needed, dropped when anything is wrong with it."""

    def __init__(self, connect: Connect, discard: Discard, settings: str = "") -> None:
        self._connect = connect
        self._discard = discard
        self._settings = settings
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        """The connection, for one caller at a time."""
        async with self._turn:
            with clear_errors(self._connect):
                try:
                    if not self._usable():
                        await self.drop()
                        self._connection = await self._opened()
                    yield self._connection
                except (*AWAY, asyncio.CancelledError):
                    await self.drop()
                    raise

    def _usable(self) -> bool:
        # One that somebody left in a transaction is not: what we write would hang on it.
        connection = self._connection
        if connection is None or connection.is_closed():
            return False
        return not connection.is_in_transaction()

    async def _opened(self) -> Connection:
        connection = await self._connect()
        if self._settings:
            await connection.execute(self._settings)
        return connection

    async def drop(self) -> None:
        """Close without ceremony: the other side may not be there to say goodbye to."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
            await self._discard(connection)

    async def close(self) -> None:
        """Close politely, within reason."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                await asyncio.wait_for(self._discard(connection), CONNECT_SECONDS)
            except AWAY:
                connection.terminate()


class Lines:
    """A few connections that are nobody's, each lent to one caller at a time."""

    def __init__(self, connect: Connect, discard: Discard, size: int, settings: str = "") -> None:
        self._idle = [Line(connect, discard, settings) for _ in range(size)]
        self._all = list(self._idle)
        self._free = asyncio.Semaphore(size)

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        """One of them."""
        async with self._free:
            line = self._idle.pop()
            try:
                async with line.use() as connection:
                    yield connection
            finally:
                self._idle.append(line)

    async def close(self) -> None:
        """Close them all."""
        await asyncio.gather(*(line.close() for line in self._all))


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
        pooler: bool = False,
        one_loop: bool = False,
    ) -> None:
        super().__init__(None, moment)
        self.pooler = pooler
        self.one_loop = one_loop
        planner = "" if pooler else PLANNER
        self.connect = self.source = connect
        self.discard = discard
        self._own: dict[Channel, Line | Lines] = {
            "claim": Line(connect, discard, planner),
            "settle": Line(connect, discard, planner),
            "plan": Lines(connect, discard, PLANS, planner),
        }
        self._shared = Lines(connect, discard, SHARED)
        # Apart from those for a moment: what is asked in the middle of a transaction may need one.
        self._whole = Lines(connect, discard, WHOLE)
        # Apart from the others: handlers that hold one each and then deliver wait for nobody.
        self._lent = Lines(connect, discard, LENT)
        self._kept = Lines(connect, discard, LENT)

    async def _fetch(self, channel: Channel, statement: Statement, bound: Sequence[Any]) -> Any:
        for left in reversed(range(TRIES)):
            try:
                async with self._line(channel) as connection:
                    return await connection.fetch(statement.text, *bound)
            except AGAIN as error:
                if not left:
                    raise StoreUnavailable(
                        f"PostgreSQL gave up: {error}", source=self.source
                    ) from error
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def _line(self, channel: Channel) -> AsyncIterator[Connection]:
        if channel == "any":
            async with self.shared() as connection:
                yield connection
        else:
            async with self._own[channel].use() as connection:
                yield connection

    def shared(self) -> AbstractAsyncContextManager[Connection]:
        """One of the connections that are nobody's, for a moment."""
        return self._shared.use()

    def lent(self) -> AbstractAsyncContextManager[Connection]:
        """One of the connections for handlers, for as long as an attempt takes."""
        return self._lent.use()

    def kept(self) -> AbstractAsyncContextManager[Connection]:
        """One of the connections for callers, for as long as their transaction takes."""
        return self._kept.use()

    @asynccontextmanager
    async def together(self, channel: Channel = "any", /) -> AsyncIterator[Session]:
        """Statements in one transaction."""
        try:
            line = self._whole.use() if channel == "any" else self._own[channel].use()
            async with line as connection, connection.transaction():
                yield PostgresSession(connection, self.moment)
        except AGAIN as error:
            raise StoreUnavailable(
                "two transactions waited for each other, and this one was undone; try it again",
                source=self.source,
            ) from error

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Session]:
        """Statements that only read, as it stood when the first of them ran."""
        async with (
            self.shared() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            await connection.execute(READER)
            yield PostgresSession(connection, self.moment)

    def another(self) -> Postgres:
        """The same database over connections of its own."""
        return Postgres(self.connect, self.discard, self.moment, pooler=self.pooler)

    async def close(self) -> None:
        """Let go of every connection."""
        pools = (self._shared, self._whole, self._lent, self._kept)
        lines: list[Line | Lines] = [*self._own.values(), *pools]
        await asyncio.gather(*(each.close() for each in lines))


def from_url(url: str, *, pooler: bool) -> tuple[Connect, Discard]:
    """Connections to the database that the address names."""

    async def connect() -> Connection:
        try:
            return await asyncpg.connect(
                url,
                timeout=CONNECT_SECONDS,
                command_timeout=COMMAND_SECONDS,
                statement_cache_size=0 if pooler else 200,
                server_settings={} if pooler else SETTINGS,
            )
        except (ValueError, asyncpg.ClientConfigurationError) as error:
            raise BadSetting(
                "database", f"the address cannot be read: {error}; see postgresql://user@host/name"
            ) from error

    return connect, _close


def from_factory(factory: Connect) -> tuple[Connect, Discard]:
    """Connections that the caller knows how to make."""
    return factory, _close


def from_pool(pool: Any) -> tuple[Connect, Discard]:
    """Connections of the caller's pool; the ones duly works with are kept out of it for long."""

    async def connect() -> Connection:
        return await pool.acquire(timeout=CONNECT_SECONDS)

    return connect, pool.release


async def _close(connection: Connection) -> None:
    if not connection.is_closed():
        await connection.close(timeout=CONNECT_SECONDS)
