"""The inbox: each message is handled once per consumer, in the transaction of its effects."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from duly.domain import checks
from duly.domain.deliveries import payloads
from duly.errors import Conflict, InvalidInput
from duly.ports import Transaction
from duly.stores.database import Database, Session
from duly.stores.deliveries.transactions import StoreTransaction, own


class Message:
    """A message for a consumer: new, or a duplicate with the result of the first one."""

    def __init__(
        self,
        transaction: StoreTransaction,
        names: dict[str, str],
        first: tuple[str | None, datetime] | None,
    ) -> None:
        self._transaction = transaction
        self._names = names
        self._first = first
        self._result: Any = None

    @property
    def id(self) -> str:
        """The message's id."""
        return self._names["message_id"]

    @property
    def consumer(self) -> str:
        """The consumer that handles it once."""
        return self._names["consumer"]

    @property
    def is_new(self) -> bool:
        """Whether it has to be handled; if not, `result` is the stored result."""
        return self._first is None

    @property
    def result(self) -> Any:
        """The result that was kept, now or the first time."""
        if self._first is None:
            return self._result
        return None if self._first[0] is None else msgspec.json.decode(self._first[0])

    @property
    def received_at(self) -> datetime | None:
        """When it was first received; None for a new message."""
        return None if self._first is None else self._first[1]

    async def keep(self, result: Any) -> None:
        """Store a result as JSON, which duplicates get as theirs."""
        if not self.is_new:
            raise Conflict(
                f"message {self.id!r} was handled by {self.consumer!r} already; check "
                "`message.is_new` first, and return `message.result`"
            )
        text = _as_json(result)
        await self._transaction.session.fetch("inbox.keep", result=text, **self._names)
        self._result = msgspec.json.decode(text)

    @property
    def connection(self) -> Any:
        """On PostgreSQL, asyncpg's connection."""
        return self._transaction.connection

    async def opened(self) -> StoreTransaction:
        """The transaction in which the message is handled."""
        return self._transaction

    async def execute(self, sql: str, *parameters: Any) -> None:
        """Run one statement in the transaction of the message."""
        await self._transaction.execute(sql, *parameters)

    async def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement in the transaction of the message and return its rows."""
        return await self._transaction.fetch(sql, *parameters)


class Inbox:
    """The messages handled by the consumers of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def receive(self, transaction: Transaction, message_id: str, consumer: str) -> Message:
        """Receive a message, new or a duplicate; waits for a transaction that handles the same."""
        transaction = own(transaction, self._database)
        names = {
            "namespace": self._namespace,
            "consumer": checks.checked_name("consumer", consumer),
            "message_id": checks.checked_text("message_id", message_id),
        }
        first = await _first(transaction.session, names)
        return Message(transaction, names, first)

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Delete at most a batch of messages received longer ago; returns how many."""
        rows = await self._database.fetch(
            "inbox.prune",
            namespace=self._namespace,
            kept_for=kept_for.total_seconds(),
            batch=batch,
        )
        return len(rows)


async def _first(session: Session, names: dict[str, str]) -> tuple[str | None, datetime] | None:
    while not await session.fetch("inbox.receive", **names):
        # If it was pruned since the insert, it is new after all.
        if rows := await session.fetch("inbox.first", **names):
            result, received_at = rows[0]
            return result, received_at
    return None


def _as_json(result: Any) -> str:
    try:
        return payloads.payload_bytes(result).decode()
    except InvalidInput as error:
        raise InvalidInput("result", error.problem) from error
