"""The batches of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from duly.client.intake import Intake, body_of
from duly.client.problems import whole
from duly.client.requester import Requester
from duly.client.targets import missing
from duly.domain.batches import (
    arguments_of,
    as_member,
    checked_batch,
    checked_batch_name,
    checked_batch_state,
)
from duly.domain.checks import checked_limit
from duly.errors import InvalidInput
from duly.records.batch import Batch, BatchState, Then
from duly.records.delivery import DeliveryKeywords
from duly.records.target import Target
from duly.services.deliveries.handles import Handle


class Batches:
    """The batches of one server."""

    def __init__(self, requester: Requester, intake: Intake) -> None:
        self._requester = requester
        self._intake = intake

    async def open(self, then: Then, *, name: str | None = None) -> Batch:
        """Open a batch; when all its members have ended, `then` is delivered once."""
        try:
            completion = body_of(**arguments_of(then))
        except TypeError as error:
            raise InvalidInput("then", f"{error}; give the arguments of deliver") from error
        given = {key: value for key, value in completion.items() if value is not None}
        title = None if name is None else checked_batch_name(name)
        body = whole({"then": given, "name": title})
        try:
            return await self._requester.post(Batch, "batches", body=body, once=True)
        except InvalidInput as error:
            raise missing(error) or error from error

    async def get(self, id: str) -> Batch:
        """One batch with its progress, or NotFound."""
        return await self._requester.get(Batch, "batches", checked_batch(id))

    async def list(
        self,
        state: BatchState | str | None = None,
        *,
        before: str | None = None,
        limit: int = 50,
    ) -> Sequence[Batch]:
        """Batches, newest first: all of them, or those in one state."""
        wanted = None if state is None else checked_batch_state(state)
        last = None if before is None else checked_batch(before)
        return await self._requester.listed(
            Batch, "batches", limit=checked_limit(limit), cursor=last, state=wanted
        )

    async def deliver(
        self, id: str, target: Target, payload: Any = None, **options: Unpack[DeliveryKeywords]
    ) -> Handle[Any]:
        """Accept a delivery as a member of the batch; Conflict if it is closed."""
        return await self._intake.deliver(target, payload, **as_member(options, id))

    async def close(self, id: str) -> Batch:
        """Take no more members: the batch finishes when those that it has have ended."""
        return await self._requester.post(Batch, "batches", checked_batch(id), "close", safe=True)

    async def cancel(self, id: str) -> Batch:
        """Take no more members, cancel those that wait, and send no completion."""
        return await self._requester.post(Batch, "batches", checked_batch(id), "cancel", safe=True)
