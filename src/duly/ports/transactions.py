"""Transactions shared with user code, and the inbox and outbox that work in them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Protocol, runtime_checkable

from duly.domain.deliveries.delivery import PreparedDelivery
from duly.domain.deliveries.outcomes import Settlement
from duly.errors import InvalidInput
from duly.records.delivery import Accepted


class Transaction(Protocol):
    """A transaction of the store, in which a handler or a block of code writes."""

    @property
    def connection(self) -> Any:
        """The driver's connection, if the store has one to share."""

    async def execute(self, sql: str, *parameters: Any) -> None:
        """Run one statement."""

    async def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""


@runtime_checkable
class WithTransaction(Protocol):
    """Objects of duly that can be passed as `connection=`."""

    async def opened(self) -> Transaction:
        """The transaction, begun if it is not open yet."""


async def transaction_of(connection: object) -> Transaction:
    """The transaction of a `connection=` argument that must be one of duly's own."""
    if not isinstance(connection, WithTransaction):
        raise InvalidInput(
            "connection",
            "this is done in duly's own transactions; give `app.transaction()` or "
            "`delivery.transaction`, or leave it out",
        )
    return await connection.opened()


class Message(WithTransaction, Protocol):
    """A message in a consumer's inbox, and the transaction in which it is handled."""

    @property
    def id(self) -> str: ...
    @property
    def consumer(self) -> str: ...
    @property
    def is_new(self) -> bool:
        """Whether it has to be handled; if not, `result` is what was stored the first time."""

    @property
    def result(self) -> Any:
        """The result stored for it, now or the first time."""

    @property
    def received_at(self) -> datetime | None:
        """When it was first received; None if it is new."""

    @property
    def connection(self) -> Any:
        """On PostgreSQL, asyncpg's connection."""

    async def keep(self, result: Any) -> None:
        """Store a result as JSON, which duplicates of the message then get."""

    async def execute(self, sql: str, *parameters: Any) -> None:
        """Run one statement in the message's transaction."""

    async def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement in the message's transaction and return its rows."""


class Inbox(Protocol):
    """The messages that consumers have handled."""

    async def receive(self, transaction: Transaction, message_id: str, consumer: str) -> Message:
        """Receive a message, new or already handled; waits while another transaction handles it."""

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Delete at most a batch of older messages; returns how many."""


class Outbox(Protocol):
    """Accepts deliveries in transactions that the caller commits.

    A Conflict or an unknown target leaves the transaction unchanged.
    """

    async def enlist(self, transaction: Transaction, request: PreparedDelivery) -> Accepted:
        """Store a delivery in a transaction of this store; the commit wakes the workers."""

    async def hand_over(
        self, connection: Any, request: PreparedDelivery, *, is_expected: bool
    ) -> Accepted:
        """Store a delivery through a driver's connection, of any supported driver."""

    def hand_over_now(
        self, connection: Any, request: PreparedDelivery, *, is_expected: bool
    ) -> Accepted:
        """The same as `hand_over` for synchronous drivers, without an event loop."""


class OpenTransaction(Transaction, Protocol):
    """The engine's interface to a transaction: how it ends."""

    async def complete(self, settlement: Settlement) -> None:
        """Write the settlement and commit; LeaseLost, and a rollback, if it does not apply."""

    async def roll_back(self) -> None:
        """Roll the transaction back."""
