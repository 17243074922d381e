"""The deliveries of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import msgspec

from duly.client.requester import Requester, page_of
from duly.domain.checks import checked_id
from duly.records.attempt import Attempt, HistoryEntry, Step
from duly.records.delivery import (
    Delivery,
    DeliveryDetail,
    PageKeywords,
)
from duly.records.page import Page
from duly.services.deliveries.deliveries import checked


class Deliveries:
    """The deliveries of one server."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def get(self, id: str) -> Delivery:
        """One delivery, or NotFound."""
        return await self._requester.get(Delivery, "deliveries", checked_id(id))

    async def detail(self, id: str) -> DeliveryDetail:
        """One delivery with its attempts, steps, state changes, and what it waits for."""
        return await self._requester.get(DeliveryDetail, "deliveries", checked_id(id))

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

    async def cancel(self, id: str) -> Delivery:
        """Cancel a pending delivery; Conflict if it is not pending."""
        return await self._requester.post(Delivery, "deliveries", checked_id(id), "cancel")

    async def retry(self, id: str) -> Delivery:
        """Retry a dead letter with all its attempts, or a waiting delivery now."""
        return await self._requester.post(Delivery, "deliveries", checked_id(id), "retry")


def _query(wanted: PageKeywords) -> dict[str, Any]:
    query = msgspec.structs.asdict(checked(wanted))
    return query | {"cursor": query.pop("before")}
