"""The deliveries of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, Unpack

import msgspec

from duly.client.bulk import Moving
from duly.client.requester import Requester, page_of
from duly.domain.checks import checked_id, checked_wait
from duly.ports import Clock
from duly.records.attempt import Attempt, HistoryEntry, Step
from duly.records.dead_letter import BulkProgress, BulkResult
from duly.records.delivery import (
    Delivery,
    DeliveryCounts,
    DeliveryDetail,
    DeliveryFilter,
    FilterKeywords,
    PageKeywords,
)
from duly.records.page import Page
from duly.services.deliveries.deliveries import checked
from duly.services.deliveries.handles import wait_for


class Deliveries:
    """The deliveries of one server."""

    def __init__(self, requester: Requester, moving: Moving, clock: Clock) -> None:
        self._requester = requester
        self._clock = clock
        self._moving = moving

    async def get(self, id: str) -> Delivery:
        """One delivery, or NotFound."""
        return await self._requester.get(Delivery, "deliveries", checked_id(id))

    async def detail(self, id: str, *, wait: float = 0) -> DeliveryDetail:
        """One delivery with its result, attempts, steps, state changes, and what it waits for.

        Unless it has ended, its end is awaited for up to `wait` seconds, at most 60.
        """
        seconds = checked_wait("wait", wait)
        query = {"wait": f"{seconds:.6f}s"} if seconds else {}
        return await self._requester.get(DeliveryDetail, "deliveries", checked_id(id), **query)

    async def list(self, **wanted: Unpack[PageKeywords]) -> Sequence[Delivery]:
        """Deliveries, newest first."""
        return await self._requester.listed(Delivery, "deliveries", **_query(wanted))

    async def page(self, **wanted: Unpack[PageKeywords]) -> Page[Delivery]:
        """Like `list`, one page of at most 200; continue from its `next`."""
        return await self._requester.get(page_of(Delivery), "deliveries", **_query(wanted))

    async def attempts(self, id: str) -> Sequence[Attempt]:
        """The attempts of a delivery, oldest first."""
        return (await self.detail(id)).attempts

    async def history(self, id: str) -> Sequence[HistoryEntry]:
        """Everything that happened to a delivery, attempts and other changes, oldest first."""
        return await self._requester.get(list[HistoryEntry], "deliveries", checked_id(id), "moves")

    async def steps(self, id: str) -> Sequence[Step]:
        """The completed steps of a delivery, in their order."""
        return (await self.detail(id)).steps

    async def wait(self, id: str, *, timeout: float | timedelta | None = None) -> DeliveryDetail:
        """The delivery when it has completed.

        DeliveryFailed if it is a dead letter or was cancelled, NotEnded after `timeout` seconds;
        without one it waits for as long as it takes.
        """
        return await wait_for(self, self._clock, id, timeout)

    async def cancel(self, id: str) -> Delivery:
        """Cancel a pending delivery, or ask for it if it runs; Conflict if it has ended."""
        return await self._requester.post(Delivery, "deliveries", checked_id(id), "cancel")

    async def retry(self, id: str) -> Delivery:
        """Retry a dead letter with all its attempts, or a waiting delivery now."""
        return await self._requester.post(Delivery, "deliveries", checked_id(id), "retry")

    async def count(self, *, waiting: bool = False, **wanted: Unpack[FilterKeywords]) -> int:
        """How many pending deliveries match, up to 10,000."""
        body = {**_which(wanted), "dry_run": True}
        verb = "retry" if waiting else "cancel"
        found = await self._requester.post(BulkResult, "deliveries", verb, body=body, safe=True)
        return found.matching

    async def counts(self, **wanted: Unpack[FilterKeywords]) -> DeliveryCounts:
        """How many deliveries match, by state."""
        query = {name: value for name, value in _which(wanted).items() if name != "all"}
        return await self._requester.get(DeliveryCounts, "deliveries", "counts", **query)

    def cancel_all(self, **wanted: Unpack[FilterKeywords]) -> AsyncIterator[BulkProgress]:
        """Cancel all pending deliveries that match; yields the progress."""
        return self._moving.all(("deliveries", "cancel"), _which(wanted))

    def retry_all(self, **wanted: Unpack[FilterKeywords]) -> AsyncIterator[BulkProgress]:
        """Make all pending deliveries that match, and are due later, due now; yields progress."""
        return self._moving.all(("deliveries", "retry"), _which(wanted))


def _which(wanted: FilterKeywords) -> dict[str, Any]:
    """The filter as a body; `all` if it has no field that selects."""
    query = msgspec.structs.asdict(checked(wanted))
    names = DeliveryFilter.__struct_fields__
    given = _spelled({name: query[name] for name in names if query[name] is not None})
    return {**given, "all": not given.keys() - {"until", "state"}}


def _query(wanted: PageKeywords) -> dict[str, Any]:
    query = msgspec.structs.asdict(checked(wanted))
    return _spelled(query | {"cursor": query.pop("before")})


def _spelled(query: dict[str, Any]) -> dict[str, Any]:
    """The duration as a server takes it."""
    late_over = query.get("late_over")
    return query if late_over is None else query | {"late_over": f"{late_over:.6f}s"}
