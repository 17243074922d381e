"""Transactions for handlers and callers: committed with a delivery's completion, or by a block.

The commit wakes the workers for deliveries that were accepted in the transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from typing import Any, Self

import asyncpg

from duly.domain.deliveries.outcomes import Settlement
from duly.errors import Conflict, Contended, InvalidInput, LeaseLost, StoreUnavailable
from duly.failpoints import hit
from duly.ports import RUNNING, Transaction
from duly.stores.database import Channel, Session
from duly.stores.deliveries.agenda import settle_together
from duly.stores.postgres.connections import Connection, away, clear_errors
from duly.stores.postgres.database import Postgres, PostgresSession, handler_setup
from duly.stores.sqlite.database import HeldWriter, Sqlite
from duly.stores.statements import Statement

LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    ConnectionError,
)
IDLE_LIMIT = "set local idle_in_transaction_session_timeout = '5s'"


async def _complete(session: Session, settlement: Settlement) -> None:
    if not await settle_together(session, [settlement]):
        raise LeaseLost(f"the lane of delivery {settlement.delivery} is no longer ours")


class PostgresTransaction:
    """A transaction on a borrowed connection; `connection` is asyncpg's.

    Concurrent statements take turns, as on SQLite: a connection runs one at a time.
    """

    def __init__(
        self, database: Postgres, borrowed: AbstractAsyncContextManager[Any], connection: Any
    ) -> None:
        self.database = database
        self.after_commit: Callable[[], None] | None = None
        self._connection = connection
        self._borrowed = borrowed
        self._transaction = connection.transaction()
        self._turn = asyncio.Lock()
        self._is_over = False

    @classmethod
    async def begin(
        cls, database: Postgres, borrowed: AbstractAsyncContextManager[Any], setup: str = ""
    ) -> PostgresTransaction:
        """Borrow a connection and begin; `setup` is SQL that affects only this transaction."""
        opened = cls(database, borrowed, await borrowed.__aenter__())
        try:
            await opened._transaction.start()
            await opened._set_up(setup)
        except BaseException as error:
            await borrowed.__aexit__(type(error), error, error.__traceback__)
            raise
        return opened

    async def _set_up(self, setup: str) -> None:
        if setup:
            await self._connection.execute(setup)

    @property
    def is_over(self) -> bool:
        """Whether it was committed or rolled back."""
        return self._is_over

    @property
    def connection(self) -> Any:
        """asyncpg's connection, until the transaction is over."""
        if self._is_over:
            raise Conflict("the transaction is over; begin another one")
        return self._connection

    @property
    def session(self) -> Session:
        """Runs the store's statements in this transaction."""
        return EnclosedSession(self)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Connection]:
        """The connection for one statement; Conflict if the transaction has ended meanwhile.

        Raises StoreUnavailable if the connection was lost. Other errors are passed on: most are
        caused by the statement, and its author has to see them.
        """
        async with self._turn:
            connection, source = self.connection, self.database.source
            try:
                yield connection
            except StoreUnavailable as error:
                error.source = error.source or source
                raise
            except Exception as error:
                if isinstance(error, LOST) or connection.is_closed():
                    raise away(error, source) from error
                raise

    async def opened(self) -> Self:
        """Itself."""
        return self

    async def execute(self, sql: str, *parameters: Any) -> None:
        """Run one statement; parameters are `$1`, `$2`."""
        async with self.alone() as connection:
            await connection.execute(sql, *parameters)

    async def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        async with self.alone() as connection:
            return [tuple(row) for row in await connection.fetch(sql, *parameters)]

    async def complete(self, settlement: Settlement) -> None:
        """Write the settlement and commit; LeaseLost, and a rollback, if it does not apply."""
        await self._commit(settlement)

    async def commit(self) -> None:
        """Commit; Conflict, and a rollback, if one of its statements failed."""
        try:
            await self._commit(None)
        except asyncpg.InFailedSQLTransactionError as error:
            # A commit would roll back silently.
            raise Conflict(
                "a statement of the transaction failed, so PostgreSQL kept nothing of it; let the "
                "error end the block, or run what may fail in `tx.connection.transaction()`"
            ) from error

    async def _commit(self, settlement: Settlement | None) -> None:
        try:
            with clear_errors(self.database.source):
                await hit("complete.before")
                # From here on the lane is locked; a process that freezes must not keep it locked.
                await self.execute(IDLE_LIMIT)
                if settlement is not None:
                    await _complete(self.session, settlement)
                await hit("complete.middle")
                async with self.alone():
                    await self._transaction.commit()
                    self._is_over = True
        except BaseException as error:
            await self.roll_back()
            if isinstance(error, asyncpg.LockNotAvailableError):
                raise Contended(f"a lock was not to be had at the commit: {error}") from error
            raise
        _call(self.after_commit)
        try:
            await hit("complete.after")
        finally:
            await self._borrowed.__aexit__(None, None, None)

    async def roll_back(self) -> None:
        """Roll back; a connection that fails to do so is closed."""
        self._is_over = True
        try:
            await self._transaction.rollback()
        except BaseException as error:
            self._connection.terminate()
            if not isinstance(error, Exception):
                raise
        finally:
            await self._borrowed.__aexit__(None, None, None)


class EnclosedSession(PostgresSession):
    """Runs the store's statements in a transaction, in turn with those of its owner."""

    def __init__(self, transaction: PostgresTransaction) -> None:
        super().__init__(transaction.connection, transaction.database.moment)
        self._transaction = transaction

    async def _fetch(self, channel: Channel, statement: Statement, bound: Sequence[Any]) -> Any:
        async with self._transaction.alone():
            return await super()._fetch(channel, statement, bound)


class SqliteTransaction:
    """A transaction on the writer; nothing else can be written until it ends, so keep it short."""

    def __init__(self, database: Sqlite, held: HeldWriter) -> None:
        self.database = database
        self.session: Session = held
        self.after_commit: Callable[[], None] | None = None
        self._held = held

    @classmethod
    async def begin(cls, database: Sqlite, attempt: object = None) -> SqliteTransaction:
        """Wait for the writer and begin; `attempt` is the attempt of the calling handler."""
        return cls(database, await database.hold(attempt))

    @property
    def connection(self) -> Any:
        """Always Conflict: the file has one writer, which is not exposed."""
        raise Conflict("SQLite has no connection to use; call execute and fetch")

    async def opened(self) -> Self:
        """Itself."""
        return self

    async def execute(self, sql: str, *parameters: Any) -> None:
        """Run one statement; parameters are `?`."""
        await self.fetch(sql, *parameters)

    async def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        rows: list[tuple[Any, ...]] = await self._held.write(
            lambda connection: connection.execute(sql, parameters).fetchall()
        )
        return rows

    async def complete(self, settlement: Settlement) -> None:
        """Write the settlement and commit; LeaseLost, and a rollback, if it does not apply."""
        await self._commit(settlement)

    async def commit(self) -> None:
        """Commit."""
        await self._commit(None)

    async def _commit(self, settlement: Settlement | None) -> None:
        try:
            await hit("complete.before")
            if settlement is not None:
                await _complete(self._held, settlement)
            await hit("complete.middle")
            await asyncio.shield(self._held.commit())
        finally:
            self._held.let_go()
        _call(self.after_commit)
        await hit("complete.after")

    async def roll_back(self) -> None:
        """Roll back."""
        self._held.let_go()


StoreTransaction = PostgresTransaction | SqliteTransaction


def own(transaction: Transaction, database: object) -> StoreTransaction:
    """The transaction, if it is one of this store's; else InvalidInput."""
    is_ours = isinstance(transaction, PostgresTransaction | SqliteTransaction)
    if not is_ours or transaction.database is not database:  # type: ignore[attr-defined]
        raise InvalidInput(
            "connection",
            "it is no transaction of this app; give `app.transaction()` or `delivery.transaction`",
        )
    return transaction  # type: ignore[return-value]


def _call(after_commit: Callable[[], None] | None) -> None:
    if after_commit is not None:
        after_commit()


async def begin(database: Postgres | Sqlite, worker: int | None = None) -> StoreTransaction:
    """Begin a transaction for a handler of the worker."""
    if isinstance(database, Postgres):
        _refuse_second(database)
        is_set_here = database.pooler and worker is not None
        setup = handler_setup(worker or 0, local=True).apply if is_set_here else ""
        return await PostgresTransaction.begin(database, database.lent(worker), setup)
    return await SqliteTransaction.begin(database, RUNNING.get())


@asynccontextmanager
async def block(database: Postgres | Sqlite) -> AsyncIterator[StoreTransaction]:
    """A transaction for a block of code: committed at its end, rolled back if it raises."""
    opened: StoreTransaction
    if isinstance(database, Postgres):
        _refuse_second(database)
        opened = await PostgresTransaction.begin(database, database.kept())
        _current_block.set(opened)
    else:
        opened = await SqliteTransaction.begin(database)
    try:
        yield opened
    except BaseException:
        await opened.roll_back()
        raise
    await opened.commit()


_current_block: ContextVar[PostgresTransaction | None] = ContextVar("here", default=None)
"""The transaction block of the current task."""


def _refuse_second(database: Postgres) -> None:
    # Connections are few: tasks that hold one and wait for a second could deadlock.
    current = _current_block.get()
    if current is not None and current.database is database and not current.is_over:
        raise Conflict("this task is in a transaction already; use that one, or end it first")
