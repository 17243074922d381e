"""Client: the resources of an App, over the HTTP API of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Self

from duly.client.access import Alerts, Audit, Keys, Workers
from duly.client.batches import Batches
from duly.client.bulk import Moving
from duly.client.calendars import Calendars
from duly.client.dead_letters import DeadLetters
from duly.client.deliveries import Deliveries
from duly.client.endpoints import Endpoints
from duly.client.events import Events
from duly.client.intake import Intake
from duly.client.limits import Limits
from duly.client.monitoring import Stats
from duly.client.pool import CONNECTIONS, Pool
from duly.client.recovery import Recovery
from duly.client.requester import Requester
from duly.client.schedules import Schedules
from duly.client.streams import Streams
from duly.client.sync import SyncClient
from duly.errors import BadSetting, InvalidInput
from duly.ports import Chance, Clock
from duly.records.batch import Then
from duly.records.stats import Second
from duly.services.batches import OpenBatch
from duly.settings import checked_setting
from duly.sync.home import Home
from duly.system import SystemChance, SystemClock

CHANCE = SystemChance()
"""Shared by all clients: each instance stays in memory until the process ends."""


class Client:
    """The resources of a server's namespace: the methods, records and errors of an App.

    `key` is an API key. `timeout` is how many seconds may pass without a byte of an answer (90 by
    default). `connections` is the most open connections; further calls wait. Use it with
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
        self._requester = requester = Requester(server, key, self._pool, clock, chance or CHANCE)
        self._events = Events(requester, clock)
        moving = Moving(requester, clock)
        self.deliveries = own = Deliveries(requester, moving, clock)
        self.get, self.list, self.page = own.get, own.list, own.page
        self.attempts, self.steps, self.wait = own.attempts, own.steps, own.wait
        self.cancel, self.retry = own.cancel, own.retry
        intake = Intake(requester, own)
        self.deliver, self.deliver_many = intake.deliver, intake.deliver_many
        self.stats = Stats(requester)
        self.schedules = Schedules(requester, moving)
        self.calendars = Calendars(requester)
        self.streams = Streams(requester)
        self.batches = Batches(requester, intake)
        self.dead_letters = DeadLetters(requester, moving)
        self.recovery = Recovery(requester)
        self.endpoints = Endpoints(requester, moving)
        self.limits = Limits(requester)
        self.workers = Workers(requester)
        self.alerts = Alerts(requester)
        self.keys = Keys(requester)
        self.audit = Audit(requester)
        self.schedule = self.schedules.declare

        self._home = Home(Residence(self, self._pool))
        self._sync: SyncClient | None = None

    @property
    def sync(self) -> SyncClient:
        """The same methods for synchronous code: they block, as in `client.sync.deliver(...)`."""
        if self._sync is None:
            self._sync = SyncClient(self, self._home)
        return self._sync

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()

    def batch(self, then: Then, *, name: str | None = None) -> OpenBatch:
        """A batch for a block of code, as `app.batch`; the end of the block closes it."""
        return OpenBatch(self, then, name)

    def events(self, after: int | None = None) -> AsyncGenerator[Second, None]:
        """Every second from now on; with `after`, first those since that id (up to 5 minutes).

        It reconnects if the connection is lost. StoreUnavailable after a minute without an event.
        """
        return self._events.listen(after)


class Residence:
    """The event loop of a Client, as its synchronous calls need it."""

    is_open = True
    """There is nothing to open: connections are made when they are needed."""

    def __init__(self, client: Client, pool: Pool) -> None:
        self._pool = pool
        self.close = client.close

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of its connections."""
        return self._pool.event_loop

    def check_movable(self) -> None:
        """Do nothing: a Client can be used on any event loop."""

    def settle_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do nothing: a Client belongs to the event loop that uses it."""

    async def until_open(self) -> None:
        """Do nothing: it is open."""

    async def open(self) -> None:
        """Do nothing: it is open."""
