"""Batches: opened, filled, closed, cancelled and listed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, Unpack

from duly.domain import checks
from duly.domain.batches import (
    arguments_of,
    as_member,
    checked_batch,
    checked_batch_name,
    checked_batch_state,
    refuse_other_payloads,
)
from duly.domain.deliveries.delivery import PreparedDelivery
from duly.errors import Conflict, InvalidInput
from duly.ports import Chance, Store
from duly.records.batch import Batch, BatchState, Then
from duly.records.delivery import Accepted, DeliveryKeywords
from duly.records.target import Target
from duly.services.deliveries.handles import Handle
from duly.services.deliveries.intake import Intake, Item

CANCELLED_AT_ONCE, CANCEL_ROUNDS = 1000, 20
Deliver = Callable[..., Awaitable[Handle[Any]]]


class Batches:
    """The batches of one namespace; `actor` is named in the audit trail, None writes no entry.

    `on_closed` is called when a batch was closed here: it may be finished.
    """

    def __init__(
        self,
        store: Store,
        intake: Intake,
        chance: Chance,
        deliver: Deliver,
        payload_limit: int,
        on_closed: Callable[[], None],
        actor: str | None = None,
    ) -> None:
        self._store = store
        self._intake = intake
        self._chance = chance
        self._deliver = deliver
        self._payload_limit = payload_limit
        self._on_closed = on_closed
        self._actor = actor

    async def open(self, then: Then, *, name: str | None = None, id: str | None = None) -> Batch:
        """Open a batch; when all its members have ended, `then` is delivered once.

        `then` is a target, `(target, payload)`, or a mapping of the arguments of `deliver`. The
        payload is an object or nothing; the counts are added to it as `batch`. With an `id`, a UUID
        of version 7, a repeated call opens nothing more.
        """
        completion = self._completion(then)
        title = None if name is None else checked_batch_name(name)
        given = self._chance.delivery_id() if id is None else checks.checked_id(id)
        await self._intake.know([completion.target])
        return await self._store.batches.open(given, title, completion, self._actor)

    def _completion(self, then: Then) -> PreparedDelivery:
        try:
            completion = self._intake.request(**arguments_of(then))
        except TypeError as error:
            raise InvalidInput("then", f"{error}; give the arguments of deliver") from error
        refuse_other_payloads(completion.payload, self._payload_limit)
        return completion

    async def get(self, id: str) -> Batch:
        """One batch with its progress, or NotFound."""
        return await self._store.batches.get(checked_batch(id))

    async def list(
        self,
        state: BatchState | str | None = None,
        *,
        before: str | None = None,
        limit: int = 50,
    ) -> Sequence[Batch]:
        """Batches, newest first: all of them, or those in one state.

        `before` is the last id of the page before.
        """
        wanted = None if state is None else checked_batch_state(state)
        last = None if before is None else checked_batch(before)
        return await self._store.batches.page(wanted, last, checks.checked_limit(limit))

    async def deliver(
        self, id: str, target: Target, payload: Any = None, **options: Unpack[DeliveryKeywords]
    ) -> Handle[Any]:
        """Accept a delivery as a member of the batch; Conflict if it is closed.

        The options are those of `deliver`.
        """
        return await self._deliver(target, payload, **as_member(options, id))

    async def close(self, id: str) -> Batch:
        """Take no more members: the batch finishes when those that it has have ended.

        It waits for transactions that add a member. Safe to repeat.
        """
        batch = await self._store.batches.close(checked_batch(id), self._actor)
        self._on_closed()
        return batch

    async def cancel(self, id: str) -> Batch:
        """Take no more members, cancel those that wait, and send no completion; safe to repeat.

        Of a large batch, the workers cancel the rest. Running members end as they do; if one fails,
        it is cancelled instead of retried. Conflict if the batch is finished.
        """
        id = checked_batch(id)
        await self._store.batches.cancel(id, self._actor)
        self._on_closed()
        after: str | None = None
        for _ in range(CANCEL_ROUNDS):
            _, after = await self._store.batches.cancel_waiting(id, after, CANCELLED_AT_ONCE)
            if after is None:
                break
        return await self._store.batches.get(id)


class BatchMethods(Protocol):
    """What an open batch needs of the batches of an App or a client."""

    async def open(self, then: Then, *, name: str | None = None) -> Batch: ...
    async def get(self, id: str) -> Batch: ...
    async def close(self, id: str) -> Batch: ...
    async def cancel(self, id: str) -> Batch: ...


class Place(Protocol):
    """An App, another namespace of its store, or a client."""

    @property
    def batches(self) -> BatchMethods: ...
    async def deliver(
        self, target: Target, payload: Any = None, **options: Unpack[DeliveryKeywords]
    ) -> Handle[Any]: ...
    async def deliver_many(
        self, items: Iterable[Item], *, batch: str | None = None
    ) -> Sequence[Accepted]: ...


class OpenBatch:
    """A batch that a block of code fills: `async with app.batch(then=...) as batch:`.

    The end of the block closes it. If the block raises, the batch stays open, so that no completion
    is sent for half of it: close or cancel it by its id.
    """

    def __init__(self, place: Place, then: Then, name: str | None) -> None:
        self._place = place
        self._then = then
        self._name = name
        self._id: str | None = None

    @property
    def id(self) -> str:
        """Its id; Conflict before it is opened."""
        if self._id is None:
            raise Conflict("the batch is not open yet; use `async with app.batch(...) as batch:`")
        return self._id

    async def __aenter__(self) -> Self:
        self._id = (await self._place.batches.open(self._then, name=self._name)).id
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        elif not isinstance(error, asyncio.CancelledError):
            error.add_note(f"batch {self.id} is still open; close or cancel it by its id")

    async def deliver(
        self, target: Target, payload: Any = None, **options: Unpack[DeliveryKeywords]
    ) -> Handle[Any]:
        """Accept a delivery as a member; the options are those of `app.deliver`."""
        return await self._place.deliver(target, payload, **as_member(options, self.id))

    async def deliver_many(self, items: Iterable[Item]) -> Sequence[Accepted]:
        """Accept many deliveries as members in one transaction: all of them or none."""
        return await self._place.deliver_many(items, batch=self.id)

    async def get(self) -> Batch:
        """The batch with its progress."""
        return await self._place.batches.get(self.id)

    async def close(self) -> Batch:
        """Take no more members; the end of the block does this."""
        return await self._place.batches.close(self.id)

    async def cancel(self) -> Batch:
        """Take no more members, cancel those that wait, and send no completion."""
        return await self._place.batches.cancel(self.id)
