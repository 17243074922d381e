"""The inbox: each message is handled once per consumer, in the transaction of what it causes."""

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
    """A message as its consumer has it: new, or with what came of the first time."""

    def __init__(
        self,
        transaction: StoreTransaction,
        names: dict[str, str],
        first: tuple[str | None, datetime] | None,
    ) -> None:
        self._transaction = transaction
        self._names = names
        self._first = first
        self._kept: Any = None

    @property
    def id(self) -> str:
        """The message's id."""
        return self._names["message_id"]

    @property
    def consumer(self) -> str:
        """For whom it is handled once."""
        return self._names["consumer"]

    @property
    def is_new(self) -> bool:
        """Whether it is to be handled; otherwise it was, and `result` is what was kept then."""
        return self._first is None

    @property
    def result(self) -> Any:
        """What was kept of handling it, now or the first time."""
        if self._first is None:
            return self._kept
        return None if self._first[0] is None else msgspec.json.decode(self._first[0])

    @property
    def received_at(self) -> datetime | None:
        """When it was first received; None if that is now."""
        return None if self._first is None else self._first[1]

    async def keep(self, result: Any) -> None:
        """Keep a result, as JSON, with which duplicates are answered."""
        if not self.is_new:
            raise Conflict(
                f"message {self.id!r} was handled by {self.consumer!r} already; look at "
                "`message.is_new` first, and answer with `message.result`"
            )
        text = _as_json(result)
        await self._transaction.session.fetch("inbox.keep", result=text, **self._names)
        self._kept = msgspec.json.decode(text)

    @property
    def connection(self) -> Any:
        """On PostgreSQL, asyncpg's connection."""
        return self._transaction.connection

    async def opened(self) -> StoreTransaction:
        """The transaction that it is handled in."""
        return self._transaction

    async def execute(self, sql: str, *parameters: Any) -> None:
        """Run one statement in the transaction that the message is handled in."""
        await self._transaction.execute(sql, *parameters)

    async def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement there and return its rows."""
        return await self._transaction.fetch(sql, *parameters)


class Inbox:
    """What the consumers of one namespace have handled."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def receive(self, transaction: Transaction, message_id: str, consumer: str) -> Message:
        """Take a message, or learn that it was handled; waits for whoever is at it."""
        transaction = own(transaction, self._database)
        names = {
            "namespace": self._namespace,
            "consumer": checks.checked_name("consumer", consumer),
            "message_id": checks.checked_text("message_id", message_id),
        }
        first = await _first(transaction.session, names)
        return Message(transaction, names, first)

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Forget at most a batch of what was received longer ago; returns how many."""
        rows = await self._database.fetch(
            "inbox.prune",
            namespace=self._namespace,
            kept_for=kept_for.total_seconds(),
            batch=batch,
        )
        return len(rows)


async def _first(session: Session, names: dict[str, str]) -> tuple[str | None, datetime] | None:
    while not await session.fetch("inbox.receive", **names):
        # In between it may have been pruned: then it is new after all.
        if rows := await session.fetch("inbox.first", **names):
            result, received_at = rows[0]
            return result, received_at
    return None


def _as_json(result: Any) -> str:
    try:
        return payloads.payload_bytes(result).decode()
    except InvalidInput as error:
        raise InvalidInput("result", error.problem) from error
