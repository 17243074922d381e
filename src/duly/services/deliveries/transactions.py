"""Accepts deliveries and receives messages in transactions of the caller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

from duly.domain.deliveries.delivery import PreparedDelivery
from duly.errors import InvalidInput
from duly.ports import Message, Store, WithTransaction, transaction_of
from duly.records.delivery import Accepted


class Outbox:
    """Accepts deliveries and receives messages in open transactions."""

    def __init__(
        self,
        store: Store,
        check: Callable[[Collection[str]], Awaitable[object]],
        expects: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._check = check
        self._expects = expects

    async def accept(self, connection: Any, request: PreparedDelivery) -> Accepted:
        """Accept one delivery in duly's own transaction, or in that of a driver."""
        expected = self._expects(request.target)
        if not isinstance(connection, WithTransaction):
            return await self._store.outbox.hand_over(connection, request, is_expected=expected)
        transaction = await connection.opened()
        await self._check([request.target])
        return await self._store.outbox.enlist(transaction, request)

    def accept_now(self, connection: Any, request: PreparedDelivery) -> Accepted:
        """Accept one delivery in the transaction of a driver that needs no event loop."""
        if isinstance(connection, WithTransaction):
            raise InvalidInput(
                "connection", "it is async; use `await app.deliver(..., connection=...)`"
            )
        expected = self._expects(request.target)
        return self._store.outbox.hand_over_now(connection, request, is_expected=expected)

    @asynccontextmanager
    async def receive(
        self, connection: Any, message_id: str, consumer: str
    ) -> AsyncIterator[Message]:
        """Receive a message in the given transaction of duly, or in a new one."""
        if connection is None:
            async with self._store.transaction() as transaction:
                yield await self._store.inbox.receive(transaction, message_id, consumer)
        else:
            transaction = await transaction_of(connection)
            yield await self._store.inbox.receive(transaction, message_id, consumer)
