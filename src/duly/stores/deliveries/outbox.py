"""The outbox: deliveries accepted in transactions that others begin and end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from duly.domain.checks import unknown_handler
from duly.domain.deliveries.delivery import Accepted, PreparedDelivery
from duly.domain.endpoints.endpoint import endpoint_name, no_endpoint
from duly.domain.endpoints.webhooks import is_webhook
from duly.errors import DulyError, InvalidInput
from duly.ports import Transaction
from duly.stores.deliveries.caller_connections import CallerConnection, caller_of
from duly.stores.deliveries.ledger import Deliveries, key_taken
from duly.stores.deliveries.transactions import own
from duly.stores.postgres.database import Postgres
from duly.stores.sqlite.database import Sqlite


class Answer(msgspec.Struct, frozen=True):
    """What `duly.accept` says: the delivery under the id or key, or what it refused."""

    id: str = ""
    due_at: datetime | None = None
    refused: str | None = None
    known: list[str] = []


_answers = msgspec.json.Decoder(Answer)


class Outbox:
    """Takes deliveries in for one namespace."""

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
        """Store one in a transaction of the store itself; the commit wakes the workers."""
        transaction = own(transaction, self._database)
        accepted = await self._deliveries.accept_within(transaction.session, request)
        transaction.after_commit = self._hint
        return accepted

    async def hand_over(
        self, connection: Any, request: PreparedDelivery, *, is_expected: bool
    ) -> Accepted:
        """Store one through a driver's connection; without a transaction it is one by itself."""
        caller, asked = self._caller(connection), self._asked(request, is_expected)
        answer = caller.run(connection, asked)
        return _read(await answer if caller.is_async else answer, request)

    def hand_over_now(
        self, connection: Any, request: PreparedDelivery, *, is_expected: bool
    ) -> Accepted:
        """The same without an event loop, for drivers that need none."""
        caller = self._caller(connection)
        if caller.is_async:
            raise InvalidInput(
                "connection", "it is for async code; `await app.deliver(..., connection=...)`"
            )
        return _read(caller.run(connection, self._asked(request, is_expected)), request)

    def _caller(self, connection: Any) -> CallerConnection:
        if isinstance(self._database, Sqlite):
            raise InvalidInput(
                "connection",
                "this app is on SQLite, whose file has one owner; deliver in "
                "`async with app.transaction() as tx`, and write your own tables there too",
            )
        return caller_of(connection)

    def _asked(self, request: PreparedDelivery, is_expected: bool) -> str:
        fields = msgspec.structs.asdict(request) | {
            "payload": request.payload.decode(),
            "tags": request.tags or None,
            "namespace": self._namespace,
            "may_be_new": is_expected or is_webhook(request.target),
            "as_of": self._database.moment() if isinstance(self._database, Postgres) else None,
        }
        return msgspec.json.encode(fields).decode()


def _read(answer: Any, request: PreparedDelivery) -> Accepted:
    found = _answers.decode(answer)
    if found.refused is not None:
        raise _refusal(found, request)
    assert found.due_at is not None
    return Accepted(found.id, found.due_at.replace(tzinfo=UTC), found.id != request.id)


def _refusal(answer: Answer, request: PreparedDelivery) -> DulyError:
    if answer.refused == "key":
        return key_taken(request.key, answer.id)
    name = endpoint_name(request.target)
    return unknown_handler(request.target, answer.known) if name is None else no_endpoint(name)
