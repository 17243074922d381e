"""Transactions in which others write, and what can be taken in and handed out in them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Protocol, runtime_checkable

from duly.domain.deliveries.delivery import Accepted, PreparedDelivery
from duly.domain.deliveries.outcomes import Settlement
from duly.errors import InvalidInput


class Transaction(Protocol):
    """A transaction of the store, in which a handler or a block of code writes."""

    @property
    def connection(self) -> Any:
        """The driver's connection, if there is one to be had."""

    async def execute(self, sql: str, *parameters: Any) -> None:
        """Run one statement."""

    async def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""


@runtime_checkable
class WithTransaction(Protocol):
    """What of duly's own can be given as `connection=`."""

    async def opened(self) -> Transaction:
        """The transaction that is meant, begun if need be."""


async def transaction_of(connection: object) -> Transaction:
    """The transaction that `connection=` means, where it has to be one of duly's own."""
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
        """Whether it is to be handled; otherwise it was, and `result` is what was kept then."""

    @property
    def result(self) -> Any:
        """What was kept of handling it, now or the first time."""

    @property
    def received_at(self) -> datetime | None:
        """When it was first received; None if that is now."""

    @property
    def connection(self) -> Any:
        """On PostgreSQL, asyncpg's connection."""

    async def keep(self, result: Any) -> None:
        """Keep a result, as JSON, with which duplicates are answered."""

    async def execute(self, sql: str, *parameters: Any) -> None:
        """Run one statement in the transaction that the message is handled in."""

    async def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement there and return its rows."""


class Inbox(Protocol):
    """What consumers have handled."""

    async def receive(self, transaction: Transaction, message_id: str, consumer: str) -> Message:
        """Take a message, or learn that it was handled; waits for whoever is at it."""

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Forget at most a batch of what was received longer ago; returns how many."""


class Outbox(Protocol):
    """Accepting deliveries in transactions that others end.

    A Conflict, or a target that nobody has, leaves the transaction as it was.
    """

    async def enlist(self, transaction: Transaction, request: PreparedDelivery) -> Accepted:
        """Store one in a transaction of the store itself; the commit wakes the workers."""

    async def hand_over(
        self, connection: Any, request: PreparedDelivery, *, is_expected: bool
    ) -> Accepted:
        """Store one through a driver's connection, of whichever driver."""

    def hand_over_now(
        self, connection: Any, request: PreparedDelivery, *, is_expected: bool
    ) -> Accepted:
        """The same without an event loop, for drivers that need none."""


class OpenTransaction(Transaction, Protocol):
    """The engine's side of a transaction: how it ends."""

    async def complete(self, settlement: Settlement) -> None:
        """Write the settlement and commit; LeaseLost, and a rollback, if it does not apply."""

    async def roll_back(self) -> None:
        """Undo everything."""
