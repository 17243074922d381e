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
from tests.engine.house import House, Life
from tests.stores.store_probe import StoreProbe
from tests.transports.receiver import Receiver, answer, receiver, says

LAST = 2
LEFT: ContextVar[str] = ContextVar("left", default="")
"""What a handler leaves in the context of its task."""


ATTEMPTING: ContextVar[bool] = ContextVar("attempting", default=False)
"""Whether this happens between claim and settle."""


def attempting(carry: Run) -> Run:
    """The same, and whoever asks is told."""

    async def carrying(claimed: Claimed, task: asyncio.Task[Any]) -> None:
        before = ATTEMPTING.set(True)
        try:
            await carry(claimed, task)
        finally:
            ATTEMPTING.reset(before)

    return carrying


class Stage:
    """An app with a handler of each kind, and a worker whose loops the test ticks."""

    def __init__(self, app: App, house: House, inbox: Receiver) -> None:
        self.app = app
        self.house = house
        self.inbox = inbox
        self.life: Life
        self.asked: list[asyncio.Future[Any]] = []
        self.ran: list[str] = []
        """The deliveries of streams, in the order in which they were attempted."""
        self.trials = 0
        self.stopping: asyncio.Task[int] | None = None
        self._probe: StoreProbe
        for name, handler in HANDLERS.items():
            handler(self, functools.partial(app.handler, name))

    async def begin(self) -> None:
        """Open it all."""
        self.life = await self.house.born(self.app)
        carriers = self.life.engine.worker.runner._tasks
        carriers._run = attempting(carriers._run)
        self._probe = StoreProbe(self.app.store, self.house.clock)  # type: ignore[arg-type]
        await self.sql("create table effects (number integer primary key, delivery text)")
        await self.app.endpoints.add("billing", self.inbox.url("/billing"))

    async def sql(self, text: str) -> list[dict[str, Any]]:
        return await self._probe.sql(text)

    @property
    def insert(self) -> str:
        """Writes an effect; the number is the order in which it was written."""
        is_sqlite = isinstance(self.app.store.database, Sqlite)  # type: ignore[attr-defined]
        number = "(select coalesce(max(number), 0) + 1 from effects)"
        return f"insert into effects values ({number}, {'?' if is_sqlite else '$1'})"

    async def effects(self) -> list[str]:
        rows = await self.sql("select delivery from effects order by number")
        return [row["delivery"] for row in rows]

    async def tick(self) -> None:
        """Claim and start what is due, under a lease that never ends."""
        self.life.engine.worker.membership.lease.renew(self.house.clock.monotonic())
        await self.life.tick()

    async def forget_connections(self) -> None:
        """Have each handler's transaction open a connection of its own."""
        database = self.app.store.database  # type: ignore[attr-defined]
        if isinstance(database, Postgres):
            await database._pool.give_back()

    async def planned(self, **terms: Any) -> list[str]:
        """The one occurrence of a new schedule, which is due."""
        name = f"schedule:{self.trials}"
        await self.app.schedule(name, duly.every("1h"), "async", max_runs=1, **terms)
        (due,) = await self.app.list(schedule=name)
        self.house.clock.advance(3600)
        await self.life.engine.worker.planner.catch_up()
        return [due.id]


def _async(stage: Stage, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await asyncio.tasks.sleep(0)


def _thread(stage: Stage, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    def work(delivery: Delivery[Any]) -> None: ...


def _awaitable(stage: Stage, handler: Any) -> None:
    class Callable:
        async def __call__(self, delivery: Delivery[Any]) -> None:
            await asyncio.tasks.sleep(0)

    handler(retry=duly.no_retry)(Callable())


async def _charged() -> int:
    return 7


def _steps(stage: Stage, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        async with delivery.step("first") as step:
            if not step.done:
                step.keep(1)
        assert await delivery.do("charge", _charged) == 7
        assert await delivery.do("late", lambda: 8, late=True) == 8


def _steps_in_thread(stage: Stage, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    def work(delivery: Delivery[Any]) -> None:
        with delivery.step("first") as step:
            if not step.done:
                step.keep(1)
        assert delivery.do("charge", _charged) == 7


def _transaction(stage: Stage, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        message = await delivery.once("billing")
        assert message.is_new
        await message.execute(stage.insert, delivery.id)
        await message.fetch("select 1")
        await message.keep({"kept": True})
        assert not (await delivery.once("billing")).is_new
        async with delivery.transaction as transaction:
            assert await transaction.fetch("select 1") == [(1,)]
        assert await delivery.transaction is transaction
        await delivery.transaction.execute("select 1")
        assert await delivery.transaction.fetch("select 1") == [(1,)]
        assert await delivery.do("enclosed", lambda: 9) == 9
        await stage.app.deliver("async", connection=delivery.transaction)


def _failing(stage: Stage, handler: Any) -> None:
    @handler(retry=duly.delays(1))
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.transaction.execute(stage.insert, delivery.id)
        if delivery.attempt == 1:
            raise ValueError("after writing")


def _abandoning(stage: Stage, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        asking = delivery.transaction.execute("select 1")
        stage.asked.append(asyncio.ensure_future(asking))
        await asyncio.tasks.sleep(0)


def _leaving(stage: Stage, handler: Any) -> None:
    @handler(retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        LEFT.set(delivery.id)
        stage.ran.append(delivery.id)
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
Begin = Callable[[Stage], Awaitable[list[str]]]


def _to(target: Any) -> Begin:
    async def begin(stage: Stage) -> list[str]:
        return [(await stage.app.deliver(target, stage.trials)).id]

    return begin


async def _to_url(stage: Stage) -> list[str]:
    return [(await stage.app.deliver(duly.webhook(stage.inbox.url()), stage.trials)).id]


async def _to_endpoint(stage: Stage) -> list[str]:
    # What is known of it is old by then, so that it is read anew.
    stage.house.clock.advance(2)
    return [(await stage.app.deliver(duly.endpoint("billing"), stage.trials)).id]


async def _stream(stage: Stage) -> list[str]:
    name = f"stream:{stage.trials}"
    return [(await stage.app.deliver("leaving", n, stream=name)).id for n in range(LAST + 1)]


ATTEMPTS: dict[str, Begin] = {
    **{name: _to(name) for name in HANDLERS if name != "leaving"},
    "overlap": lambda stage: stage.planned(overlap="skip"),
    "queue": lambda stage: stage.planned(overlap="queue"),
    "joining": lambda stage: stage.planned(stream=f"stream:{stage.trials}"),
    "stream": _stream,
    "url": _to_url,
    "endpoint": _to_endpoint,
}
WRITING = {"transaction", "failing"}
"""Those that write one effect each."""
SPENDING = {"failing": 2}
"""How many attempts one takes without any fault, if not one."""


@asynccontextmanager
async def staged(house: House) -> AsyncIterator[Stage]:
    """A stage that is open, with somebody who takes webhooks."""
    async with receiver(says(answer(200, b"taken"))) as inbox:
        app = house.app(lease=3600, egress_allow="127.0.0.1", concurrency=8)
        stage = Stage(app, house, inbox)
        await stage.begin()
        try:
            yield stage
        finally:
            with contextlib.suppress(Exception):
                await asyncio.gather(*stage.asked, return_exceptions=True)
