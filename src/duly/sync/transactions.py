"""Transactions and received messages whose methods block."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from duly.errors import Conflict
from duly.ports import Message, Transaction, WithTransaction
from duly.sync.calls import Make
from duly.sync.conversations import Conversation
from duly.sync.home import refuse_event_loop

Result = TypeVar("Result")


class SyncTransaction:
    """A transaction of the store; give it as `connection=` to deliver in it."""

    def __init__(self, conversation: Conversation, transaction: Transaction) -> None:
        self._conversation = conversation
        self._transaction = transaction

    @property
    def connection(self) -> Any:
        """Always Conflict: the driver's connection is async."""
        raise Conflict("the driver's connection is async; call execute and fetch")

    def execute(self, sql: str, *parameters: Any) -> None:
        """Run one statement with the database's own placeholders (`?` or `$1`)."""
        self._run(lambda: self._transaction.execute(sql, *parameters), "execute")

    def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        return self._run(lambda: self._transaction.fetch(sql, *parameters), "fetch")

    async def opened(self) -> Transaction:
        """The transaction itself, for `connection=`."""
        return self._transaction

    def _run(self, make: Make[Result], name: str) -> Result:
        refuse_event_loop(lambda: f"await tx.{name}(...)")
        return self._conversation.run(make)


class SyncMessage(SyncTransaction):
    """A message in a consumer's inbox, and the transaction in which it is handled."""

    def __init__(self, conversation: Conversation, message: Message) -> None:
        super().__init__(conversation, message)
        self._message = message

    @property
    def id(self) -> str:
        """The message's id."""
        return self._message.id

    @property
    def consumer(self) -> str:
        """The consumer that handles it once."""
        return self._message.consumer

    @property
    def is_new(self) -> bool:
        """Whether it has to be handled; if not, `result` is what was stored the first time."""
        return self._message.is_new

    @property
    def result(self) -> Any:
        """The result stored for it, now or the first time."""
        return self._message.result

    @property
    def received_at(self) -> datetime | None:
        """When it was first received; None if it is new."""
        return self._message.received_at

    def keep(self, result: Any) -> None:
        """Store a result as JSON, which duplicates of the message then get."""
        self._run(lambda: self._message.keep(result), "keep")

    async def opened(self) -> Transaction:
        """The transaction of the message, for `connection=`."""
        return await self._message.opened()


def is_plain(connection: object) -> bool:
    """Whether it is a connection of a driver, and no transaction of duly."""
    return connection is not None and not isinstance(connection, WithTransaction)
