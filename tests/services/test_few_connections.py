"""Few connections, and many tasks that hold one and need another: all proceed, and none hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

import duly
from duly import App, Delivery
from duly.errors import BadSetting, Conflict
from duly.stores.postgres.connections import BASE, Connection, NoSlot, Source
from duly.stores.postgres.database import FEWEST, SMALLEST_POOL, share_of
from duly.stores.postgres.pool import Level, Pool
from tests.services.test_running import running

pytestmark = pytest.mark.requirement("D14", "D1")
MANY = 12
DEADLINE_SECONDS = 20

Call = Callable[[App, int], Awaitable[Any]]


async def in_transaction(app: App, n: int) -> None:
    async with app.transaction() as transaction:
        await app.deliver("other", n, connection=transaction)
        await app.deliver("other", n)


CALLS: dict[str, Call] = {
    "delivers": lambda app, n: app.deliver("other", n),
    "delivers with a key": lambda app, n: app.deliver("other", n, key=f"k{n}"),
    "delivers many": lambda app, n: app.deliver_many([("other", n), ("other", -n)]),
    "lists": lambda app, _: app.list(limit=5),
    "declares a schedule": lambda app, n: app.schedule(f"s{n}", duly.every("1h"), "other"),
    "adds an endpoint": lambda app, n: app.endpoints.add(f"e{n}", "https://example.org/"),
    "reads the status": lambda app, _: app.stats.namespace_status(),
    "reads the stats": lambda app, _: app.stats(),
    "opens a transaction": in_transaction,
}


@pytest.mark.parametrize("connections", [FEWEST, 10])
@pytest.mark.parametrize("name", CALLS)
async def test_handlers_that_hold_a_transaction_and_need_more_all_complete(
    postgres_url: str, name: str, connections: int
) -> None:
    async with App(postgres_url, environment={}, connections=connections) as app:
        done: asyncio.Queue[int] = asyncio.Queue()

        @app.handler("other")
        async def other(delivery: Delivery[Any]) -> None:
            pass

        @app.handler("holds", retry=duly.no_retry)
        async def holds(delivery: Delivery[int]) -> None:
            await delivery.transaction.execute("select 1")
            await CALLS[name](app, delivery.payload)
            await delivery.do("noted", int)
            done.put_nowait(delivery.payload)

        async with running(app), asyncio.timeout(DEADLINE_SECONDS):
            accepted = await app.deliver_many(("holds", n) for n in range(1, MANY + 1))
            assert {await done.get() for _ in range(MANY)} == set(range(1, MANY + 1))
            while {(await app.get(each.id)).state for each in accepted} != {"completed"}:
                await asyncio.tasks.sleep(0)
        assert app.telemetry.counts["LeaseWasLost"] == 0


async def used(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(
            await connection.fetchval(
                "select count(*) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
        )
    finally:
        await connection.close()


@pytest.mark.parametrize("connections", [FEWEST, 10])
async def test_a_process_opens_no_more_than_its_budget(postgres_url: str, connections: int) -> None:
    app = App(postgres_url, environment={}, connections=connections)
    entered, leave = asyncio.Semaphore(0), asyncio.Event()

    @app.handler("holds")
    async def holds(delivery: Delivery[int]) -> None:
        await delivery.transaction.execute("select 1")
        entered.release()
        await leave.wait()

    async with app:
        await app.deliver_many(("holds", n) for n in range(MANY))
        async with running(app), asyncio.timeout(DEADLINE_SECONDS):
            await entered.acquire()
            await asyncio.gather(*(app.list(limit=1) for _ in range(3 * MANY)))
            assert await used(postgres_url) <= connections
            leave.set()
            for _ in range(MANY - 1):
                await entered.acquire()
            assert await used(postgres_url) <= connections


async def test_sequential_calls_open_one_connection(postgres_url: str) -> None:
    async with App(postgres_url, environment={}) as app:
        for _ in range(3):
            await app.list()
            await app.store.agenda.survey()
            await app.store.plans.clock()
        assert await used(postgres_url) == 1


@pytest.mark.parametrize("size", [SMALLEST_POOL, 10])
async def test_a_callers_pool_is_never_exhausted(postgres_url: str, size: int) -> None:
    async with asyncpg.create_pool(postgres_url, min_size=0, max_size=size) as pool:
        app = App(pool=pool, environment={}, connections=100, lease=3)
        entered, leave = asyncio.Semaphore(0), asyncio.Event()

        @app.handler("holds")
        async def holds(delivery: Delivery[int]) -> None:
            await delivery.transaction.execute("select 1")
            entered.release()
            await leave.wait()

        async with app:
            accepted = await app.deliver_many(("holds", n) for n in range(MANY))
            async with running(app), asyncio.timeout(DEADLINE_SECONDS):
                await entered.acquire()
                await asyncio.gather(*(app.list(limit=1) for _ in range(3 * MANY)))
                mine = [await pool.acquire(timeout=5) for _ in range(size - share_of(pool, 100))]
                assert len(mine) >= 2
                leave.set()
                for _ in range(MANY - 1):
                    await entered.acquire()
                for each in mine:
                    await pool.release(each)
            assert {(await app.get(each.id)).state for each in accepted} == {"completed"}
        assert pool.get_idle_size() == pool.get_size()


async def test_a_pool_that_is_too_small_for_a_worker_is_refused_with_the_size(
    postgres_url: str,
) -> None:
    size = SMALLEST_POOL - 1
    async with (
        asyncpg.create_pool(postgres_url, min_size=0, max_size=size) as pool,
        App(pool=pool, environment={}) as app,
    ):
        app.expect("work")
        await app.deliver("work", 1)
        with pytest.raises(BadSetting, match=f"give a pool of {SMALLEST_POOL} or more"):
            await app.run(signals=False)


async def test_a_handlers_transaction_inside_a_block_is_refused(
    postgres_url: str,
) -> None:
    async with App(postgres_url, environment={}) as app, app.transaction():
        with pytest.raises(Conflict, match="use that one, or end it first"):
            await app.store.begin()


class Server:
    """A server with a limited number of slots."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.open: list[FakeConnection] = []

    async def connect(self) -> Connection:
        if len(self.open) >= self.slots:
            raise asyncpg.TooManyConnectionsError("sorry, too many clients already")
        self.open.append(FakeConnection())
        return self.open[-1]

    async def discard(self, connection: Connection) -> None:
        self.open.remove(connection)


class FakeConnection:
    """A connection without errors."""

    def is_closed(self) -> bool:
        return False

    def is_in_transaction(self) -> bool:
        return False

    def terminate(self) -> None:
        pass


def pool_of(server: Server, size: int, reports: list[tuple[int, str]]) -> Pool:
    source = Source(server.connect, server.discard, counts_slots=False)
    return Pool(source, size, lambda open, problem: reports.append((open, problem)))


async def test_a_refused_connection_is_reported_and_the_open_ones_are_shared() -> None:
    reports: list[tuple[int, str]] = []
    server = Server(2)
    pool = pool_of(server, 6, reports)
    order = []

    async def use(n: int) -> None:
        async with pool.use(Level.STATEMENT):
            await asyncio.tasks.sleep(0)
            order.append(n)

    await asyncio.wait_for(asyncio.gather(*map(use, range(8))), 5)
    assert sorted(order) == list(range(8))
    assert len(server.open) == 2
    assert reports[0] == (2, "PostgreSQL has no connection left: sorry, too many clients already")
    await pool.close()
    assert server.open == []


async def test_without_any_connection_it_fails_at_once() -> None:
    pool = pool_of(Server(0), 6, [])
    for _ in range(2):
        with pytest.raises(NoSlot):
            async with pool.use(Level.STATEMENT):
                pass


async def test_each_level_leaves_a_connection_to_the_levels_below() -> None:
    pool = pool_of(Server(9), 4, [])
    held = []
    for level in (Level.HANDLER, Level.BLOCK, Level.BATCH, Level.STATEMENT):
        held.append(pool.use(level, BASE))
        await asyncio.wait_for(held[-1].__aenter__(), 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pool.use(level, BASE).__aenter__(), 0.01)
    for each in held:
        await each.__aexit__(None, None, None)
    await pool.close()


async def test_a_cancelled_wait_does_no_harm() -> None:
    server = Server(9)
    pool = pool_of(server, 1, [])
    async with pool.use(Level.STATEMENT):
        waiting = [asyncio.ensure_future(pool.use(Level.STATEMENT).__aenter__()) for _ in range(3)]
        await asyncio.wait(waiting, timeout=0)
        waiting[0].cancel()
    # The first got its turn or gave it up: in both cases the second gets it.
    await asyncio.wait_for(asyncio.wait([waiting[1]]), 5)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert len(server.open) == 1
    await pool.close()
