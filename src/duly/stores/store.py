"""A store: one database with its tables, opened by its URL."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import copy
from pathlib import Path
from typing import Any

from duly.domain.database_urls import address
from duly.domain.endpoints.sealed_addresses import PLAIN, SealedAddresses
from duly.errors import BadSetting
from duly.ports import Clock, OpenTransaction, StoreSizes, Transaction
from duly.stores import migrations
from duly.stores.access.audit import Audit
from duly.stores.access.idempotency import IdempotentRequests
from duly.stores.access.keys import Keys
from duly.stores.addresses import Addresses
from duly.stores.batches import Batches
from duly.stores.dead_letters import DeadLetters
from duly.stores.deliveries import transactions
from duly.stores.deliveries.agenda import Agenda
from duly.stores.deliveries.inbox import Inbox
from duly.stores.deliveries.ledger import Deliveries
from duly.stores.deliveries.maintenance import Maintenance
from duly.stores.deliveries.outbox import Outbox
from duly.stores.deliveries.running import Running
from duly.stores.deliveries.steps import Steps
from duly.stores.deliveries.traces import Traces
from duly.stores.deliveries.turns import Turns
from duly.stores.endpoints.endpoints import Endpoints
from duly.stores.endpoints.gates import Gates
from duly.stores.endpoints.limits import Limits
from duly.stores.endpoints.targets import Targets
from duly.stores.monitoring.alerts import Alerts
from duly.stores.monitoring.database_facts import postgres_facts, postgres_sizes, sqlite_facts
from duly.stores.monitoring.failure_stats import FailureStatsTable
from duly.stores.monitoring.outages import Outages
from duly.stores.monitoring.rollups import Rollups
from duly.stores.monitoring.status import StatusReader
from duly.stores.postgres import database as postgres
from duly.stores.postgres.address import SCHEME
from duly.stores.postgres.address import place as place_of
from duly.stores.postgres.connections import Connect, Discard, NoSlot
from duly.stores.postgres.database import Beside, Postgres
from duly.stores.postgres.pool import OnShort
from duly.stores.recovery.generations import Generations
from duly.stores.recovery.recovery import Recovery
from duly.stores.recovery.sweeps import Sweeps
from duly.stores.schedules.calendars import Calendars
from duly.stores.schedules.declarations import Declarations
from duly.stores.schedules.plans import Plans
from duly.stores.schedules.schedules import Schedules
from duly.stores.sqlite.clock import Steady
from duly.stores.sqlite.database import Sqlite
from duly.stores.streams.members import Members
from duly.stores.streams.streams import Streams
from duly.stores.transfer.transfer import Transfer
from duly.stores.unique_keys import UniqueKeys
from duly.stores.wakeups import DataVersion, Notifications
from duly.stores.workers import Workers

CONNECTIONS = 10
OPEN_TRIES = 20
OPEN_AGAIN_SECONDS = 0.5
OPTIONS = re.compile(r"\?\w+=")


class SqlStore:
    """The tables of one namespace in one database."""

    def __init__(
        self,
        database: Postgres | Sqlite,
        namespace: str,
        wakeups: Notifications | DataVersion,
        clock: Clock,
        addresses: SealedAddresses,
    ) -> None:
        self.database = database
        self._addresses = addresses
        self._clock = clock
        self.source: object = database.source
        self.namespace = namespace
        self.wakeups = wakeups
        self._others: dict[str, SqlStore] = {}
        self.single_owner = isinstance(database, Sqlite)
        self.one_loop = isinstance(database, Postgres) and database.one_loop
        self.agenda = Agenda(database, [namespace])
        self.workers = Workers(database, namespace, [namespace])
        self.targets = Targets(database, namespace)
        members = Members(database, namespace)
        self.endpoints = Endpoints(database, namespace, self.targets, members)
        self.addresses = Addresses(database, namespace, addresses)
        self.running = Running(database, namespace, [namespace])
        self.deliveries = Deliveries(
            database,
            namespace,
            self.targets,
            self.agenda,
            self.workers,
            self.endpoints,
            members,
            addresses,
            self.running,
        )
        self.batches = Batches(database, namespace, self.deliveries, [namespace])
        self.dead_letters = DeadLetters(database, namespace, self.deliveries, members)
        sweeps = Sweeps(database, namespace, members)
        self.recovery = Recovery(database, namespace, sweeps)
        self.generations = Generations(database, namespace, sweeps)
        self.schedules = Schedules(database, namespace, self.targets, wakeups.hint, addresses)
        self.declarations = Declarations(database, namespace, self.schedules)
        self.calendars = Calendars(database, namespace, self.schedules)
        self.plans = Plans(database, namespace)
        self.gates = Gates(database)
        self.turns = Turns(database)
        self.limits = Limits(database, namespace, self.targets)
        self.streams = Streams(database, namespace)
        self.steps = Steps(database)
        self.unique_keys = UniqueKeys(database)
        self.failure_stats = FailureStatsTable(database, namespace, self.deliveries, self.plans)
        self.status = StatusReader(database, namespace, clock, self.failure_stats, self.plans)
        self.rollups = Rollups(database, namespace)
        self.outages = Outages(database, namespace)
        self.alerts = Alerts(database, namespace)
        self.traces = Traces(database, namespace)
        self.audit = Audit(database, namespace)
        self.keys = Keys(database, namespace)
        self.maintenance = Maintenance(database, [namespace])
        self.transfer = Transfer(database, namespace, self.targets, addresses)
        self.inbox = Inbox(database, namespace)
        self.idempotency = IdempotentRequests(database, namespace)
        self.outbox = Outbox(database, namespace, self.deliveries, wakeups.hint)

    async def open(self, *, migrate: bool = True) -> None:
        """Connect, and bring the schema up to date, or refuse it if `migrate` is false."""
        self.enter()
        if isinstance(self.database, Sqlite):
            await self.database.open()
        check = migrations.migrate if migrate else migrations.require_current
        for tries_left in reversed(range(OPEN_TRIES)):
            try:
                await check(self.database)
                return
            except NoSlot:
                # Other processes close idle connections, so a slot usually becomes free.
                if not tries_left:
                    raise
                await self._clock.sleep(OPEN_AGAIN_SECONDS)

    async def reserve(self) -> None:
        """Open the connections that a worker needs at all times, and keep them."""
        if isinstance(self.database, Postgres):
            await self.database.reserve()

    async def own(self) -> None:
        """Become the only server of an SQLite file, or raise StoreIsOwned."""
        if isinstance(self.database, Sqlite):
            self.database.own()

    def stay_owned(self) -> None:
        """Keep the ownership until the process ends, because a handler still runs."""
        if isinstance(self.database, Sqlite):
            self.database.stays_owned = True

    def within(self, namespace: str) -> SqlStore:
        """The tables of another namespace on the same connections; closed with this store."""
        if namespace == self.namespace:
            return self
        if namespace not in self._others:
            wakeups = self.wakeups.within(namespace)
            self._others[namespace] = SqlStore(
                self.database, namespace, wakeups, self._clock, self._addresses
            )
        return self._others[namespace]

    def serving(self, served: Sequence[str] | None) -> SqlStore:
        """This store for an engine that serves these namespaces, or all."""
        view = copy(self)
        view.agenda = Agenda(self.database, served)
        view.running = Running(self.database, self.namespace, served)
        view.workers = Workers(self.database, self.namespace, served)
        view.maintenance = Maintenance(self.database, served)
        view.batches = Batches(self.database, self.namespace, self.deliveries, served)
        self.wakeups.served = served
        return view

    async def close(self) -> None:
        """Close all connections; safe to call twice."""
        for other in self._others.values():
            await other.wakeups.fall_silent()
        await self.wakeups.close()
        await self.database.close()
        self.database.home.leave()

    def enter(self) -> None:
        """Bind the store to the running event loop; OtherEventLoop if it is bound to another."""
        self.database.home.enter()

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the store is bound to."""
        return self.database.home.loop

    def settle_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Bind the store, which is closed, to this event loop."""
        self.database.home.settle_on(loop)

    def check_loop(self) -> None:
        """Raise OtherEventLoop if the store belongs to another event loop than the running one."""
        self.database.home.refuse_others()

    def check_writable(self) -> None:
        """Raise Conflict if the caller is in a transaction that its own write would wait for.

        Raises OtherEventLoop as `check_loop` does.
        """
        if isinstance(self.database, Sqlite):
            self.database.check_writable()
        else:
            self.database.home.check()

    async def begin(self, worker: int | None = None) -> OpenTransaction:
        """Open a transaction for a handler; it is ended if the worker is declared dead."""
        return await transactions.begin(self.database, worker)

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction for a block of code: committed at its end, rolled back if it raises."""
        return transactions.block(self.database)

    async def facts(self) -> dict[str, Any]:
        """What `duly doctor` checks."""
        if isinstance(self.database, Postgres):
            return await postgres_facts(self.database)
        return await sqlite_facts(self.database)

    async def sizes(self) -> StoreSizes | None:
        """How large the agenda is; None on SQLite."""
        if isinstance(self.database, Postgres):
            return await postgres_sizes(self.database)
        return None

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[Workers]:
        """The workers table on a separate connection, for use on another thread's event loop.

        With a caller's pool it must be used on the caller's loop, to which the pool belongs
        (`one_loop`).
        """
        if isinstance(self.database, Sqlite):
            with self.database.home.admitting():
                yield self.workers
        else:
            separate = Beside(self.database)
            try:
                yield Workers(separate, self.namespace, [])
            finally:
                await separate.close()


def _ignore(_open: int, _problem: str) -> None:
    """Default callback: do nothing."""


def store_at(
    url: str,
    *,
    namespace: str,
    clock: Clock,
    pooler: bool = False,
    connections: int = CONNECTIONS,
    on_short: OnShort = _ignore,
    addresses: SealedAddresses = PLAIN,
) -> SqlStore:
    """The store at a URL."""
    if url.startswith("sqlite:"):
        moment = clock.now if clock.virtual else Steady(clock).now
        database = Sqlite(_path(url), moment)
        return SqlStore(database, namespace, DataVersion(database), clock, addresses)
    scheme = address(url).scheme
    if SCHEME.match(scheme):
        place = place_of(url)
        pooler = pooler or place.pooler
        return store_on(
            *postgres.from_place(place, pooler=pooler),
            namespace=namespace,
            clock=clock,
            pooler=pooler,
            connections=connections,
            on_short=on_short,
            addresses=addresses,
        )
    # Text without a scheme may contain a password, so it is not shown.
    subject = f"{scheme} is" if re.fullmatch(r"[a-z0-9.+-]+", scheme) else "this is"
    raise BadSetting(
        "database",
        f"{subject} not a database duly knows; "
        "give sqlite:///path/to/file.db or postgresql://user@host/name",
    )


def store_on(
    connect: Connect,
    discard: Discard,
    *,
    namespace: str,
    clock: Clock,
    pooler: bool = False,
    one_loop: bool = False,
    connections: int = CONNECTIONS,
    on_short: OnShort = _ignore,
    addresses: SealedAddresses = PLAIN,
) -> SqlStore:
    """The store on PostgreSQL, with connections from a function.

    `one_loop` means that they can be opened and used only on the caller's event loop.
    """
    moment = clock.now if clock.virtual else _database_decides
    database = Postgres(
        connect,
        discard,
        moment,
        connections=connections,
        on_short=on_short,
        pooler=pooler,
        one_loop=one_loop,
    )
    wakeups = Notifications(database, namespace, clock)
    return SqlStore(database, namespace, wakeups, clock, addresses)


def _database_decides() -> None:
    """No moment: PostgreSQL's own clock decides what is due, the same for every machine."""


def _path(url: str) -> Path:
    rest = url.removeprefix("sqlite:")
    if not rest.startswith("///") or not rest[3:]:
        raise BadSetting(
            "database", f"{url!r} names no file; write sqlite:///duly.db or sqlite:////var/duly.db"
        )
    if ":memory:" in rest or OPTIONS.search(rest):
        raise BadSetting(
            "database",
            f"{url!r} is not the path of a file: duly keeps nothing in memory only, and reads no "
            "options after the path; write sqlite:///duly.db, and in tests the path of a file in a "
            "temporary folder",
        )
    return Path(rest[3:])
