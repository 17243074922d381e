"""A connection to PostgreSQL that is reserved for one purpose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from duly.stores.postgres.connections import (
    AWAY,
    Connection,
    NoSlot,
    Setup,
    Source,
    clear_errors,
    is_usable,
)
from duly.stores.postgres.pool import SHORT_SECONDS, Level, Pool


class Dedicated:
    """A reserved connection, for one caller at a time; it stays open once it `has_place`.

    Without a place in the budget, or if the server has no slot left, the pool's are used.
    """

    def __init__(
        self,
        source: Source,
        pool: Pool,
        setup: Setup,
        *,
        is_fallback: bool = False,
        is_extra: bool = False,
    ) -> None:
        self.has_place = False
        self._source = source
        self._pool = pool
        self._setup = setup
        self._is_fallback = is_fallback
        self._is_extra = is_extra
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._retry_at = float("-inf")

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        """The connection, opened if needed."""
        async with self._turn:
            connection = await self._ready()
            if connection is None:
                async with self._pooled() as connection:
                    yield connection
                return
            with clear_errors(self._source.connect):
                try:
                    yield connection
                except (*AWAY, asyncio.CancelledError):
                    await self.drop()
                    raise

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Connection | None]:
        """The connection, or None; never one of the pool's."""
        async with self._turn:
            connection = await self._ready()
            with clear_errors(self._source.connect):
                try:
                    yield connection
                except (*AWAY, asyncio.CancelledError):
                    await self.drop()
                    raise

    def _pooled(self) -> AbstractAsyncContextManager[Connection]:
        may_fall_back = not self._is_fallback
        return self._pool.use(Level.STATEMENT, self._setup, may_fall_back=may_fall_back)

    async def _ready(self) -> Connection | None:
        if not is_usable(self._connection):
            await self.drop()
            if self.has_place and asyncio.get_running_loop().time() >= self._retry_at:
                self._connection = await self._open()
        return self._connection

    async def _open(self) -> Connection | None:
        try:
            return await self._source.open(self._setup, extra=self._is_extra)
        except NoSlot as error:
            problem = error
        if not self._is_extra:
            await self._pool.give_back()
            try:
                return await self._source.open(self._setup)
            except NoSlot as error:
                problem = error
        self._retry_at = asyncio.get_running_loop().time() + SHORT_SECONDS
        self._pool.run_short(str(problem))
        return None

    async def drop(self) -> None:
        """Close the connection at once, without the protocol's goodbye."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._source.drop(connection)

    async def close(self) -> None:
        """Close the connection properly; another event loop may use the object then."""
        self._turn = asyncio.Lock()
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._source.close(connection)
