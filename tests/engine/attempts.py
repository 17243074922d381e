"""Attempts of every kind, for tests that make something fail in the middle of them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import duly
from duly import App, Delivery
from duly.domain.deliveries.delivery import Claimed
from duly.engine.execution.task_pool import Run
from duly.stores.postgres.database import Postgres
from duly.stores.sqlite.database import Sqlite
from tests.engine.cluster import Cluster, WorkerProcess
from tests.stores.store_probe import StoreProbe
from tests.transports.receiver import Receiver, lasting, receiver, says

LAST = 2
LEFT: ContextVar[str] = ContextVar("left", default="")
"""A value that a handler leaves in the context of its task."""


ATTEMPTING: ContextVar[bool] = ContextVar("attempting", default=False)
"""Whether the code runs between claim and settle."""


def marking_attempts(run: Run) -> Run:
    """The same run, with ATTEMPTING set."""

    async def marked(claimed: Claimed, task: asyncio.Task[Any]) -> None:
        before = ATTEMPTING.set(True)
        try:
            await run(claimed, task)
        finally:
            ATTEMPTING.reset(before)

    return marked


class Scenario:
    """An app with a handler of each kind, and a worker whose loops the test ticks."""

    def __init__(self, app: App, cluster: Cluster, inbox: Receiver) -> None:
        self.app = app
        self.cluster = cluster
        self.inbox = inbox
        self.process: WorkerProcess
        self.calls: list[asyncio.Future[Any]] = []
        self.executed: list[str] = []
        """The deliveries of streams, in the order of their attempts."""
        self.trials = 0
        self.stopping: asyncio.Task[int] | None = None
        self._probe: StoreProbe
        for name, handler in HANDLERS.items():
            handler(self, functools.partial(app.handler, name))

    async def begin(self) -> None:
        """Open the app, start the worker and create the table."""
        self.process = await self.cluster.start_worker(self.app)
        pool = self.process.engine.worker.runner._tasks
        pool._run = marking_attempts(pool._run)
        self._probe = StoreProbe(self.app.store, self.cluster.clock)  # type: ignore[arg-type]
        await self.sql("create table effects (number integer primary key, delivery text)")
        await self.app.endpoints.add("billing", self.inbox.url("/billing"))

    async def sql(self, text: str) -> list[dict[str, Any]]:
        return await self._probe.sql(text)

    @property
    def insert(self) -> str:
        """SQL that writes an effect, numbered in order."""
        is_sqlite = isinstance(self.app.store.database, Sqlite)  # type: ignore[attr-defined]
        number = "(select coalesce(max(number), 0) + 1 from effects)"
        return f"insert into effects values ({number}, {'?' if is_sqlite else '$1'})"

    async def effects(self) -> list[str]:
        rows = await self.sql("select delivery from effects order by number")
        return [row["delivery"] for row in rows]

    async def tick(self) -> None:
        """Claim and start due deliveries, under a lease that never ends."""
        self.process.engine.worker.membership.lease.renew(self.cluster.clock.monotonic())
        await self.process.tick()

    async def forget_connections(self) -> None:
        """Make each handler's transaction open a connection of its own."""
        database = self.app.store.database  # type: ignore[attr-defined]
        if isinstance(database, Postgres):
            await database._pool.give_back()

    async def planned(self, **options: Any) -> list[str]:
        """The only occurrence of a new schedule, which is due."""
        name = f"schedule:{self.trials}"
        await self.app.schedule(name, duly.every("1h"), "async", max_runs=1, **options)
        (due,) = await self.app.list(schedule=name)
        self.cluster.clock.advance(3600)
        await self.process.engine.worker.planner.catch_up()
        return [due.id]


def _async(scenario: Scenario, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await asyncio.tasks.sleep(0)


def _thread(scenario: Scenario, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    def work(delivery: Delivery[Any]) -> None: ...


def _awaitable(scenario: Scenario, handler: Any) -> None:
    class Callable:
        async def __call__(self, delivery: Delivery[Any]) -> None:
            await asyncio.tasks.sleep(0)

    handler(retry=duly.no_retry)(Callable())


async def _charged() -> int:
    return 7


def _steps(scenario: Scenario, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        async with delivery.step("first") as step:
            if not step.done:
                step.keep(1)
        assert await delivery.do("charge", _charged) == 7
        assert await delivery.do("late", lambda: 8, late=True) == 8


def _steps_in_thread(scenario: Scenario, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    def work(delivery: Delivery[Any]) -> None:
        with delivery.step("first") as step:
            if not step.done:
                step.keep(1)
        assert delivery.do("charge", _charged) == 7


def _transaction(scenario: Scenario, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        message = await delivery.once("billing")
        assert message.is_new
        await message.execute(scenario.insert, delivery.id)
        await message.fetch("select 1")
        await message.keep({"kept": True})
        assert not (await delivery.once("billing")).is_new
        async with delivery.transaction as transaction:
            assert await transaction.fetch("select 1") == [(1,)]
        assert await delivery.transaction is transaction
        await delivery.transaction.execute("select 1")
        assert await delivery.transaction.fetch("select 1") == [(1,)]
        assert await delivery.do("enclosed", lambda: 9) == 9
        await scenario.app.deliver("async", connection=delivery.transaction)


def _failing(scenario: Scenario, handler: Any) -> None:
    @handler(retry=duly.delays(1))
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.transaction.execute(scenario.insert, delivery.id)
        if delivery.attempt == 1:
            raise ValueError("after writing")


def _abandoning(scenario: Scenario, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        call = delivery.transaction.execute("select 1")
        scenario.calls.append(asyncio.ensure_future(call))
        await asyncio.tasks.sleep(0)


def _leaving(scenario: Scenario, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        LEFT.set(delivery.id)
        scenario.executed.append(delivery.id)
        if delivery.payload == LAST:
            await delivery.transaction.execute("select 1")


HANDLERS = {
    "async": _async,
    "thread": _thread,
    "awaitable": _awaitable,
    "steps": _steps,
    "steps-in-thread": _steps_in_thread,
    "transaction": _transaction,
    "failing": _failing,
    "abandoning": _abandoning,
    "leaving": _leaving,
}
Begin = Callable[[Scenario], Awaitable[list[str]]]


def _to(target: Any) -> Begin:
    async def begin(scenario: Scenario) -> list[str]:
        return [(await scenario.app.deliver(target, scenario.trials)).id]

    return begin


async def _to_url(scenario: Scenario) -> list[str]:
    return [(await scenario.app.deliver(duly.webhook(scenario.inbox.url()), scenario.trials)).id]


async def _to_endpoint(scenario: Scenario) -> list[str]:
    # More than the cache time, so that the endpoint is read again.
    scenario.cluster.clock.advance(2)
    return [(await scenario.app.deliver(duly.endpoint("billing"), scenario.trials)).id]


async def _stream(scenario: Scenario) -> list[str]:
    name = f"stream:{scenario.trials}"
    return [(await scenario.app.deliver("leaving", n, stream=name)).id for n in range(LAST + 1)]


ATTEMPTS: dict[str, Begin] = {
    **{name: _to(name) for name in HANDLERS if name != "leaving"},
    "overlap": lambda scenario: scenario.planned(overlap="skip"),
    "queue": lambda scenario: scenario.planned(overlap="queue"),
    "joining": lambda scenario: scenario.planned(stream=f"stream:{scenario.trials}"),
    "stream": _stream,
    "url": _to_url,
    "endpoint": _to_endpoint,
}
WRITING = {"transaction", "failing"}
"""Attempts that write one effect each."""
SPENDING = {"failing": 2}
"""How many attempts a kind needs without a fault, if not one."""


@asynccontextmanager
async def open_scenario(cluster: Cluster) -> AsyncIterator[Scenario]:
    """An open scenario, with a receiver for webhooks."""
    async with receiver(says(lasting(200, b"taken")), lasts=True) as inbox:
        app = cluster.app(lease=3600, egress_allow="127.0.0.1", concurrency=8)
        scenario = Scenario(app, cluster, inbox)
        await scenario.begin()
        try:
            yield scenario
        finally:
            with contextlib.suppress(Exception):
                await asyncio.gather(*scenario.calls, return_exceptions=True)
