"""How a server's books stand as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from duly.client.connection import Wire, page_of
from duly.records.delivery import Delivery, ExplainedDelivery
from duly.records.status import Status, Top


class Watch:
    """What is known of a server's deliveries as a whole."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def status(self) -> Status:
        """Who works, what is late and how fast that goes down, what is planned next."""
        return await self._wire.get(Status, "status")

    async def top(self) -> Top:
        """How it goes right now."""
        return await self._wire.get(Top, "stats", "top")

    async def late(
        self, grace: timedelta | None = None, *, limit: int = 50, payloads: bool = True
    ) -> Sequence[Delivery]:
        """What is due and not under way, longest waiting first; `grace` is the server's if None."""
        seconds = None if grace is None else grace.total_seconds()
        place = ("deliveries", "late")
        page = await self._wire.get(
            page_of(Delivery), *place, grace=seconds, limit=limit, payloads=payloads
        )
        return page.items

    async def stuck(
        self, held_for: timedelta, *, limit: int = 50, payloads: bool = True
    ) -> Sequence[ExplainedDelivery]:
        """What will not move by itself, or is under way for longer than that; and why."""
        seconds, place = held_for.total_seconds(), ("deliveries", "stuck")
        page = await self._wire.get(
            page_of(ExplainedDelivery), *place, held_for=seconds, limit=limit, payloads=payloads
        )
        return page.items
