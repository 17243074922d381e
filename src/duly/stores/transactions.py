"""Transactions for handlers: what they write and their completion last together, or neither."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

from duly.domain.errors import LeaseLost
from duly.domain.outcomes import Settlement
from duly.failpoints import hit
from duly.stores.agenda import settle_together
from duly.stores.database import Session
from duly.stores.postgres import Postgres, PostgresSession, clear_errors
from duly.stores.sqlite import HeldWriter, Sqlite

IDLE_LIMIT = "set local idle_in_transaction_session_timeout = '5s'"


async def _complete(session: Session, settlement: Settlement) -> None:
    if not await settle_together(session, [settlement]):
        raise LeaseLost(f"the lane of delivery {settlement.delivery} is no longer ours")


class PostgresTransaction:
    """A transaction on a connection of its own; `connection` is asyncpg's."""

    def __init__(self, borrowed: AbstractAsyncContextManager[Any], connection: Any) -> None:
        self.connection = connection
        self._borrowed = borrowed
        self._transaction = connection.transaction()
        self._moment: Any = None

    @classmethod
    async def begin(cls, database: Postgres) -> PostgresTransaction:
        """Borrow a connection and begin."""
        borrowed = database.lent()
        opened = cls(borrowed, await borrowed.__aenter__())
        opened._moment = database.moment
        try:
            await opened._transaction.start()
        except BaseException as error:
            await borrowed.__aexit__(type(error), error, error.__traceback__)
            raise
        return opened

    async def execute(self, sql: str, *parameters: Any) -> None:
        """Run one statement; parameters are `$1`, `$2`."""
        await self.connection.execute(sql, *parameters)

    async def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        return [tuple(row) for row in await self.connection.fetch(sql, *parameters)]

    async def complete(self, settlement: Settlement) -> None:
        """Write the settlement and commit; LeaseLost, and a rollback, if it does not apply."""
        try:
            with clear_errors():
                await hit("complete.before")
                # From here on the lane is locked: a process that stops now must not keep it so.
                await self.connection.execute(IDLE_LIMIT)
                await _complete(PostgresSession(self.connection, self._moment), settlement)
                await hit("complete.middle")
                await self._transaction.commit()
        except BaseException:
            await self.roll_back()
            raise
        await hit("complete.after")
        await self._borrowed.__aexit__(None, None, None)

    async def roll_back(self) -> None:
        """Undo everything; a connection that cannot even do that is dropped."""
        try:
            await self._transaction.rollback()
        except BaseException as error:
            self.connection.terminate()
            if not isinstance(error, Exception):
                raise
        finally:
            await self._borrowed.__aexit__(None, None, None)


class SqliteTransaction:
    """A transaction on the writer, which waits for it; keep it short."""

    def __init__(self, held: HeldWriter) -> None:
        self._held = held

    @classmethod
    async def begin(cls, database: Sqlite) -> SqliteTransaction:
        """Wait for the writer and begin."""
        return cls(await database.hold())

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
        try:
            await hit("complete.before")
            await _complete(self._held, settlement)
            await hit("complete.middle")
            await asyncio.shield(self._held.commit())
        finally:
            self._held.let_go()
        await hit("complete.after")

    async def roll_back(self) -> None:
        """Undo everything."""
        self._held.let_go()
