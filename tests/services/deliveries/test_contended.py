"""A lock that is held for long by others defers a delivery; it spends no attempt."""

import asyncio
from typing import Any

import asyncpg
import pytest

import duly
from duly import App, Delivery
from duly.errors import Contended
from tests.services.test_running import DEADLINE_SECONDS, running

pytestmark = pytest.mark.requirement("D7", "D9")
SOON = "set local lock_timeout = '50ms'"


@pytest.mark.parametrize("source", ["duly", "asyncpg", "pool"])
async def test_a_lock_timeout_spends_no_attempt(postgres_url: str, source: str) -> None:
    other = await asyncpg.connect(postgres_url)
    await other.execute("create table things (name text primary key)")
    holding = other.transaction()
    await holding.start()
    await other.execute("insert into things values ('one')")
    tried: asyncio.Queue[int] = asyncio.Queue()
    async with App(postgres_url, environment={}) as app:

        @app.handler("work", retry=duly.no_retry)
        async def work(delivery: Delivery[Any]) -> None:
            tried.put_nowait(delivery.attempt)
            transaction = await delivery.transaction
            await transaction.execute(SOON)
            if source == "duly":
                await transaction.execute("insert into things values ('one')")
            elif source == "asyncpg":
                await transaction.connection.execute("insert into things values ('one')")
            elif other.is_in_transaction():
                raise Contended("no connection became free")

        async with running(app), asyncio.timeout(DEADLINE_SECONDS):
            accepted = await app.deliver("work")
            assert [await tried.get() for _ in range(2)] == [1, 1]
            await holding.rollback()
            while (await app.get(accepted.id)).state != "completed":
                await asyncio.tasks.sleep(0)
            assert (await app.get(accepted.id)).attempt == 1
    await other.close()


async def test_other_errors_of_the_database_are_failures(postgres_url: str) -> None:
    async with App(postgres_url, environment={}) as app:
        done = asyncio.Event()

        @app.handler("work", retry=duly.no_retry)
        async def work(delivery: Delivery[Any]) -> None:
            done.set()
            await delivery.transaction.execute("select 1 / 0")

        async with running(app), asyncio.timeout(DEADLINE_SECONDS):
            accepted = await app.deliver("work")
            await done.wait()
            while (await app.get(accepted.id)).state != "dead":
                await asyncio.tasks.sleep(0)
