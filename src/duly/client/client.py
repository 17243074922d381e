"""Client: the resources of an App, over the HTTP API of a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Self, Unpack

import msgspec

from duly.client.access import Alerts, Audit, Keys, Workers
from duly.client.bulk import Moving
from duly.client.connection import Wire
from duly.client.dead_letters import DeadLetters
from duly.client.endpoints import Endpoints
from duly.client.events import Events
from duly.client.intake import Intake
from duly.client.monitoring import Watch
from duly.client.pool import CONNECTIONS, Pool
from duly.client.schedules import Schedules
from duly.client.streams import Streams
from duly.domain.checks import checked_id
from duly.errors import BadSetting, InvalidInput
from duly.ports import Chance, Clock
from duly.records.attempt import Attempt, Step
from duly.records.delivery import Accepted, Delivery
from duly.records.stats import FailureStats, Second, Series
from duly.services.deliveries.deliveries import Wanted, checked
from duly.services.deliveries.intake import Item, Options, Target
from duly.services.deliveries.waiting import Outlook
from duly.settings import checked_setting
from duly.system import SystemChance, SystemClock

CHANCE = SystemChance()
"""One for all clients: the system keeps each until the process ends."""


class Client:
    """The resources of a server's namespace: the methods, records and errors of an App.

    `key` is an API key. `timeout` is how many seconds may pass without a byte of an answer (90 by
    default), `connections` how many are open at most; calls above it wait. Use it with
    `async with`, or end with `await client.close()`.
    """

    def __init__(
        self,
        server: str,
        *,
        key: str = "",
        timeout: float | None = None,
        connections: int = CONNECTIONS,
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        if not checked_setting("server", server):
            raise BadSetting("server", "give a URL as in http://host:8787")
        if timeout is not None and timeout <= 0:
            raise InvalidInput("timeout", "give a number of seconds above 0")
        if connections < 1:
            raise InvalidInput("connections", "give at least 1")
        self.clock = clock = clock or SystemClock()
        self._pool = Pool(server, connections=connections, timeout=timeout)
        key = checked_setting("key", key)
        self._wire = wire = Wire(server, key, self._pool, clock, chance or CHANCE)
        self._events = Events(wire, clock)
        self._intake = Intake(wire)
        moving = Moving(wire, clock)
        self.watch = Watch(wire)
        self.schedules = Schedules(wire)
        self.streams = Streams(wire)
        self.dead_letters = DeadLetters(wire, moving)
        self.endpoints = Endpoints(wire, moving)
        self.workers = Workers(wire)
        self.alerts = Alerts(wire)
        self.keys = Keys(wire)
        self.audit = Audit(wire)
        self.schedule = self.schedules.declare

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()

    def events(self, after: int | None = None) -> AsyncGenerator[Second, None]:
        """Every second from now on; with `after`, first those since that id (up to 5 minutes).

        A lost connection is made again. StoreUnavailable after a minute without an event.
        """
        return self._events.listen(after)

    async def deliver(
        self, target: Target, payload: Any = None, **options: Unpack[Options]
    ) -> Accepted:
        """Accept one delivery; when this returns it is on the server's disk."""
        return await self._intake.deliver(target, payload, **options)

    async def deliver_many(self, items: Iterable[Item]) -> Sequence[Accepted]:
        """Accept up to 10,000 deliveries in one transaction: all of them or none.

        An item is `(target, payload)`, or a mapping of deliver's arguments.
        """
        return await self._intake.deliver_many(items)

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

    async def stats(self, since: datetime | timedelta) -> FailureStats:
        """Figures of failure since a moment, or for so long."""
        return await self._wire.get(FailureStats, "stats", "failures", **_from(since))

    async def series(self, since: datetime | timedelta, *, step: timedelta) -> Series:
        """What happened since a moment, or for so long, in steps of minutes."""
        seconds = int(step.total_seconds())
        return await self._wire.get(Series, "stats", "series", step=seconds, **_from(since))


class Steps(msgspec.Struct, frozen=True):
    """What is told of a delivery's steps."""

    steps: list[Step]


def _from(since: datetime | timedelta) -> dict[str, Any]:
    if isinstance(since, timedelta):
        return {"span": since.total_seconds()}
    return {"since": since}
