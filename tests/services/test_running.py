"""app.run and app.stop, and PostgreSQL with the caller's own connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

import duly
from duly import App, Delivery
from duly.errors import BadSetting
from duly.stores.postgres.database import Postgres

DEADLINE_SECONDS = 30


@asynccontextmanager
async def running(app: App) -> AsyncIterator[asyncio.Task[None]]:
    """Run the app; stop it gracefully at the end."""
    task = asyncio.create_task(app.run(signals=False))
    try:
        yield task
    finally:
        app.stop()
        await asyncio.wait_for(task, DEADLINE_SECONDS)


def queue_payloads(app: App, name: str = "work") -> asyncio.Queue[Any]:
    """Register a handler that puts its payloads into a queue."""
    payloads: asyncio.Queue[Any] = asyncio.Queue()

    async def put(delivery: Delivery[Any]) -> None:
        payloads.put_nowait(delivery.payload)

    app.handler(name)(put)
    return payloads


async def next_payload(payloads: asyncio.Queue[Any]) -> Any:
    return await asyncio.wait_for(payloads.get(), DEADLINE_SECONDS)


@pytest.mark.requirement("S1")
async def test_an_app_with_only_the_api_role_refuses_to_run(database_url: str) -> None:
    app = App(database_url, role="api", environment={})
    with pytest.raises(BadSetting, match=r"role: api alone .* `duly serve` opens it"):
        await asyncio.wait_for(app.run(signals=False), DEADLINE_SECONDS)


async def test_an_app_works_until_it_is_stopped(database_url: str) -> None:
    app = App(database_url, environment={})
    payloads = queue_payloads(app)
    async with app:
        before = await app.deliver("work", "before")
        async with running(app):
            assert await next_payload(payloads) == "before"
            during = await app.deliver("work", "during")
            assert await next_payload(payloads) == "during"
            soon = await app.deliver("work", "soon", after=0.05)
            assert await next_payload(payloads) == "soon"
        after = await app.deliver("work", "after")
        states = [(await app.get(each.id)).state for each in (before, during, soon, after)]
        assert states == ["completed"] * 3 + ["pending"]
        (worker,) = await app.store.workers.all()
        assert worker.ended_how == "stopped"


async def test_run_opens_and_closes_the_app_by_itself(sqlite_url: str) -> None:
    app = App(sqlite_url, environment={})
    payloads = queue_payloads(app)
    async with app:
        await app.deliver("work", 1)
    async with running(app):
        assert await next_payload(payloads) == 1
    with pytest.raises(duly.StoreUnavailable, match="not open"):
        await app.deliver("work", 2)


@pytest.mark.requirement("D13")
async def test_a_stop_lets_running_work_end(database_url: str) -> None:
    app = App(database_url, environment={})
    entered, leave = asyncio.Event(), asyncio.Event()

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        entered.set()
        await leave.wait()

    async with app:
        accepted = await app.deliver("work")
        async with running(app):
            await asyncio.wait_for(entered.wait(), DEADLINE_SECONDS)
            app.stop()
            asyncio.get_running_loop().call_soon(leave.set)
        assert (await app.get(accepted.id)).state == "completed"


async def test_a_cancelled_run_hands_back_its_deliveries(database_url: str) -> None:
    app = App(database_url, environment={}, drain=0)
    entered = asyncio.Event()

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        entered.set()
        await asyncio.Event().wait()

    async with app:
        accepted = await app.deliver("work")
        task = asyncio.create_task(app.run(signals=False))
        await asyncio.wait_for(entered.wait(), DEADLINE_SECONDS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        delivery = await app.get(accepted.id)
        assert (delivery.state, delivery.attempt) == ("pending", 0)
        (worker,) = await app.store.workers.all()
        assert worker.ended_how == "stopped"


async def test_a_lifespan_runs_a_worker_while_its_application_serves(database_url: str) -> None:
    app = App(database_url, environment={})
    payloads = queue_payloads(app)
    async with app.lifespan()(object()) as state:
        assert state is None
        await app.deliver("work", 1)
        assert await next_payload(payloads) == 1
    async with app.lifespan(work=False)(object()):
        accepted = await app.deliver("work", 2)
        assert (await app.get(accepted.id)).state == "pending"
        (worker,) = await app.store.workers.all()
        assert worker.ended_how == "stopped"
    assert payloads.empty()


async def test_an_app_works_with_the_callers_own_pool(postgres_url: str) -> None:
    async with asyncpg.create_pool(postgres_url, min_size=1, max_size=20) as pool:
        app = App(pool=pool, environment={}, lease=3)
        payloads = queue_payloads(app)
        async with app:
            async with running(app):
                await app.deliver("work", 1)
                assert await next_payload(payloads) == 1
                beats = set()
                async with asyncio.timeout(DEADLINE_SECONDS):
                    while len(beats) < 4:
                        (worker,) = await app.store.workers.all()
                        beats.add(worker.beat_at)
                assert worker.alive
                await app.deliver("work", 2)
                assert await next_payload(payloads) == 2
            assert len(await app.store.workers.all()) == 1
            assert app.telemetry.counts["LeaseWasLost"] == 0
        assert not pool._closed
        assert pool.get_idle_size() == pool.get_size()
        assert await pool.fetchval("show enable_seqscan") == "on"
        assert await pool.fetchval("select count(*) from duly.deliveries") == 2


async def test_a_handler_uses_its_transaction_with_the_callers_own_pool(postgres_url: str) -> None:
    async with asyncpg.create_pool(postgres_url, min_size=1, max_size=20) as pool:
        await pool.execute("create table effects (value integer)")
        app = App(pool=pool, environment={})
        done = asyncio.Event()

        @app.handler("work")
        async def work(delivery: Delivery[int]) -> None:
            await delivery.transaction.execute("insert into effects values ($1)", delivery.payload)
            done.set()

        async with app:
            await app.deliver("work", 7)
            async with running(app):
                await asyncio.wait_for(done.wait(), DEADLINE_SECONDS)
            assert [each.state for each in await app.list()] == ["completed"]
        assert await pool.fetchval("select value from effects") == 7


async def test_an_app_works_with_connections_of_the_caller(postgres_url: str) -> None:
    made: list[Any] = []

    async def connect() -> Any:
        made.append(await asyncpg.connect(postgres_url))
        return made[-1]

    app = App(connect=connect, environment={}, lease=3)
    payloads = queue_payloads(app)
    async with app:
        async with running(app):
            await app.deliver("work", 1)
            assert await next_payload(payloads) == 1
            beats = set()
            async with asyncio.timeout(DEADLINE_SECONDS):
                while len(beats) < 3:
                    (worker,) = await app.store.workers.all()
                    beats.add(worker.beat_at)
        assert isinstance(app.store.database, Postgres)  # type: ignore[attr-defined]
    assert made
    assert all(each.is_closed() for each in made)


async def test_behind_a_pooler_the_worker_polls(postgres_url: str) -> None:
    app = App(postgres_url, environment={}, pooler=True, poll=0.05)
    payloads = queue_payloads(app)
    async with app:
        async with running(app):
            await app.deliver("work", 1)
            assert await next_payload(payloads) == 1
        assert [each.state for each in await app.list()] == ["completed"]
