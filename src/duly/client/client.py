"""A server's books: what operators' commands ask of an App, asked over HTTP instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

import msgspec

from duly.client.access import Alerts, Audit, Keys, Workers
from duly.client.bulk import Moving
from duly.client.connection import Wire
from duly.client.dead_letters import DeadLetters
from duly.client.endpoints import Endpoints
from duly.client.monitoring import Stats
from duly.client.schedules import Schedules
from duly.client.streams import Streams
from duly.client.targets import contents, destination, refusal
from duly.domain import checks
from duly.domain.checks import checked_id
from duly.domain.deliveries.retry import encode_checked
from duly.domain.streams.policy import checked_policy
from duly.errors import InvalidInput
from duly.ports import Chance, Clock
from duly.records.attempt import Attempt, Step
from duly.records.delivery import DEFAULT_PRIORITY, Accepted, Delivery
from duly.records.retry_plan import RetryPlan
from duly.records.stream import OnFailure
from duly.services.deliveries.deliveries import Wanted, checked
from duly.services.deliveries.intake import Target
from duly.services.deliveries.waiting import Outlook


class Remote:
    """What a server shows of its store, to whoever has its address and a key."""

    def __init__(self, server: str, key: str, clock: Clock, chance: Chance) -> None:
        self.clock = clock
        self._wire = wire = Wire(server, key, clock, chance)
        moving = Moving(wire, clock)
        self.stats = self.watch = Stats(wire)
        self.schedules = Schedules(wire)
        self.streams = Streams(wire)
        self.dead_letters = DeadLetters(wire, moving)
        self.endpoints = Endpoints(wire, moving)
        self.workers = Workers(wire)
        self.alerts = Alerts(wire)
        self.keys = Keys(wire)
        self.audit = Audit(wire)

    async def deliver(
        self,
        target: Target,
        payload: Any = None,
        *,
        at: datetime | None = None,
        after: timedelta | None = None,
        key: str | None = None,
        priority: int = DEFAULT_PRIORITY,
        expires_at: datetime | None = None,
        tags: Iterable[str] = (),
        retry: RetryPlan | None = None,
        stream: str | None = None,
        on_failure: OnFailure | str | None = None,
    ) -> Accepted:
        """Have one delivery accepted; when this returns it is on the server's disk."""
        if at is not None and after is not None:
            raise InvalidInput("at", "give either at or after, not both")
        body = {
            "target": destination(target),
            "payload": contents(payload),
            "at": at,
            "after": None if after is None else checks.checked_wait("after", after),
            "key": key,
            "priority": checks.checked_priority(priority),
            "expires_at": expires_at,
            "tags": list(checks.checked_tags(tags)),
            "retry": None if retry is None else msgspec.Raw(encode_checked(retry).encode()),
            "stream": stream,
            "on_failure": None if on_failure is None else checked_policy(on_failure),
        }
        try:
            return await self._wire.post(Accepted, "deliveries", body=body, once=True)
        except InvalidInput as error:
            raise refusal(target, error) from error

    async def get(self, id: str) -> Delivery:
        """One delivery with all its facts, or NotFound."""
        return await self._wire.get(Delivery, "deliveries", checked_id(id))

    async def list(
        self, *, before: str | None = None, limit: int = 50, **wanted: Unpack[Wanted]
    ) -> Sequence[Delivery]:
        """Deliveries, newest first; `before` is the last id of the page before."""
        filter = msgspec.structs.asdict(checked(wanted, before, limit))
        cursor, most = filter.pop("before"), filter.pop("limit")
        return await self._wire.listed(
            Delivery, "deliveries", limit=most, cursor=cursor, payloads=True, **filter
        )

    async def attempts(self, id: str) -> Sequence[Attempt]:
        """What happened to a delivery, oldest first."""
        return await self._wire.get(list[Attempt], "deliveries", checked_id(id), "moves")

    async def steps(self, id: str) -> Sequence[Step]:
        """The steps of a delivery that are done, in their order."""
        return (await self._wire.get(Steps, "deliveries", checked_id(id))).steps

    async def outlook(self, delivery: Delivery) -> Outlook:
        """Which endpoint it goes to, if to one, and what it waits for besides its moment."""
        return await self._wire.get(Outlook, "deliveries", delivery.id)

    async def cancel(self, id: str) -> Delivery:
        """Cancel a pending delivery; Conflict when it is not pending."""
        return await self._wire.post(Delivery, "deliveries", checked_id(id), "cancel")

    async def retry(self, id: str) -> Delivery:
        """Try a dead letter again, with all its attempts, or a waiting delivery now."""
        return await self._wire.post(Delivery, "deliveries", checked_id(id), "retry")


class Steps(msgspec.Struct, frozen=True):
    """What is told of a delivery's steps."""

    steps: list[Step]
