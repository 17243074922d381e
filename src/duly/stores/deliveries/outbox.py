"""The outbox: deliveries accepted in the caller's transactions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from duly.domain.batches import batch_closed, no_batch, not_member
from duly.domain.checks import unknown_handler
from duly.domain.deliveries.delivery import PreparedDelivery
from duly.domain.endpoints.endpoint import endpoint_name, no_endpoint
from duly.domain.endpoints.webhooks import is_webhook
from duly.errors import DulyError, InvalidInput
from duly.ports import Transaction
from duly.records.delivery import Accepted
from duly.records.state import State
from duly.stores.deliveries.caller_connections import CallerConnection, caller_of
from duly.stores.deliveries.known import key_taken
from duly.stores.deliveries.ledger import Deliveries
from duly.stores.deliveries.transactions import own
from duly.stores.postgres.database import Postgres
from duly.stores.sqlite.database import Sqlite


class Answer(msgspec.Struct, frozen=True):
    """The result of `duly.accept`: the delivery with the id or key, or why it was refused."""

    id: str = ""
    state: State | None = None
    due_at: datetime | None = None
    refused: str | None = None
    known: list[str] = []


_answers = msgspec.json.Decoder(Answer)


class Outbox:
    """Accepts deliveries of one namespace in callers' transactions."""

    def __init__(
        self,
        database: Postgres | Sqlite,
        namespace: str,
        deliveries: Deliveries,
        hint: Callable[[], None],
    ) -> None:
        self._database = database
        self._namespace = namespace
        self._deliveries = deliveries
        self._hint = hint

    async def enlist(self, transaction: Transaction, request: PreparedDelivery) -> Accepted:
        """Store one in a transaction of this store; its commit wakes the workers."""
        transaction = own(transaction, self._database)
        accepted = await self._deliveries.accept_within(transaction.session, request)
        transaction.after_commit = self._hint
        return accepted

    async def hand_over(
        self, connection: Any, request: PreparedDelivery, *, is_expected: bool
    ) -> Accepted:
        """Store one on a driver's connection, in its transaction if one is open."""
        caller, encoded = self._caller(connection), self._encoded(request, is_expected)
        answer = caller.run(connection, encoded)
        return _accepted(await answer if caller.is_async else answer, request)

    def hand_over_now(
        self, connection: Any, request: PreparedDelivery, *, is_expected: bool
    ) -> Accepted:
        """As `hand_over`, for synchronous drivers and without an event loop."""
        caller = self._caller(connection)
        if caller.is_async:
            raise InvalidInput(
                "connection", "it is async; use `await app.deliver(..., connection=...)`"
            )
        return _accepted(caller.run(connection, self._encoded(request, is_expected)), request)

    def _caller(self, connection: Any) -> CallerConnection:
        if isinstance(self._database, Sqlite):
            raise InvalidInput(
                "connection",
                "this app is on SQLite, whose file has one owner; deliver in "
                "`async with app.transaction() as tx`, and write your own tables there too",
            )
        return caller_of(connection)

    def _encoded(self, request: PreparedDelivery, is_expected: bool) -> str:
        fields = msgspec.structs.asdict(request) | {
            "payload": request.payload.decode(),
            "tags": request.tags or None,
            "namespace": self._namespace,
            "may_be_new": is_expected or is_webhook(request.target),
            "as_of": self._database.moment() if isinstance(self._database, Postgres) else None,
        }
        return msgspec.json.encode(fields).decode()


def _accepted(answer: Any, request: PreparedDelivery) -> Accepted:
    decoded = _answers.decode(answer)
    if decoded.refused is not None:
        raise _refusal(decoded, request)
    assert decoded.due_at is not None
    return Accepted(
        id=decoded.id,
        state=decoded.state or State.PENDING,
        due_at=decoded.due_at.replace(tzinfo=UTC),
        known=decoded.id != request.id,
    )


def _refusal(answer: Answer, request: PreparedDelivery) -> DulyError:
    if answer.refused == "key":
        return key_taken(request.key, answer.id)
    if answer.refused == "not_member":
        return not_member(request.key, answer.id, request.batch or "")
    if answer.refused in ("closed_batch", "unknown_batch"):
        batch = request.batch or ""
        return batch_closed(batch) if answer.refused == "closed_batch" else no_batch(batch)
    name = endpoint_name(request.target)
    return unknown_handler(request.target, answer.known) if name is None else no_endpoint(name)
