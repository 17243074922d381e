"""Delivering in the transactions of other drivers: committed or rolled back with them."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from django.db import connections

import duly
from duly import App
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START, record_payloads
from tests.services.drivers import (
    ASYNC,
    PLAIN,
    by_asyncpg,
    by_psycopg,
    by_psycopg_async,
    deliver_with,
    django_connection,
)
from tests.services.work import running

pytestmark = pytest.mark.requirement("F10")
DRIVERS = ASYNC | PLAIN
NOTE = 'a "quote", 100% %s :x {} \\ \0 and ø'
each_driver = pytest.mark.parametrize("name", list(DRIVERS))


class Undo(Exception):
    """The caller rolls back."""


@pytest.fixture
async def app(postgres_url: str, clock: VirtualClock) -> AsyncIterator[App]:
    """An app on PostgreSQL, and a table of the caller."""
    async with App(postgres_url, clock=clock, environment={}) as found:
        await sql(postgres_url, "create table orders (number integer)")
        yield found


async def sql(url: str, statement: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close()


@each_driver
async def test_a_committed_delivery_is_executed(app: App, postgres_url: str, name: str) -> None:
    seen = record_payloads(app)
    async with DRIVERS[name](postgres_url) as (connection, execute):
        await execute("insert into orders values (7)")
        accepted = await deliver_with(app, name, connection, "work", {"order": 7, "note": NOTE})
        assert (accepted.known, accepted.due_at) == (False, START)
        assert await app.list() == []
    assert await sql(postgres_url, "select number from orders") == [(7,)]
    assert (await app.get(accepted.id)).accepted_at == START
    assert await run_until_idle(app) == 1
    assert seen == [{"order": 7, "note": NOTE}]


@each_driver
async def test_a_rolled_back_delivery_is_not_stored(app: App, postgres_url: str, name: str) -> None:
    record_payloads(app)
    with contextlib.suppress(Undo):
        async with DRIVERS[name](postgres_url) as (connection, execute):
            await execute("insert into orders values (7)")
            await deliver_with(app, name, connection, "work", 7, key="k", stream="s")
            raise Undo
    assert await sql(postgres_url, "select number from orders") == []
    for table in ("deliveries", "agenda", "streams", "targets"):
        assert await sql(postgres_url, f"select * from duly.{table}") == [], table
    assert await run_until_idle(app) == 0


@each_driver
async def test_a_known_key_returns_the_state_of_its_delivery(
    app: App, postgres_url: str, name: str
) -> None:
    record_payloads(app)
    for state in ("pending", "completed"):
        async with DRIVERS[name](postgres_url) as (connection, _):
            accepted = await deliver_with(app, name, connection, "work", 1, key="k")
        assert accepted.state == state
        await run_until_idle(app)


@each_driver
async def test_a_conflict_does_not_change_the_transaction(
    app: App, postgres_url: str, name: str
) -> None:
    record_payloads(app)
    async with DRIVERS[name](postgres_url) as (connection, execute):
        first = await deliver_with(app, name, connection, "work", 1, key="k")
        second = await deliver_with(app, name, connection, "work", 1, key="k")
        assert (second.id, second.due_at, second.known) == (first.id, START, True)
        with pytest.raises(duly.Conflict, match="key 'k' already belongs to delivery"):
            await deliver_with(app, name, connection, "work", 2, key="k")
        with pytest.raises(duly.InvalidInput, match="no handler 'nowhere' is known; known are: w"):
            await deliver_with(app, name, connection, "nowhere", 2)
        with pytest.raises(duly.NotFound, match="no endpoint 'none'"):
            await deliver_with(app, name, connection, duly.endpoint("none"), 2)
        with pytest.raises(duly.InvalidInput, match="priority"):
            await deliver_with(app, name, connection, "work", 2, priority=12)
        await execute("insert into orders values (7)")
    assert await sql(postgres_url, "select number from orders") == [(7,)]
    assert [each.id for each in await app.list()] == [first.id]
    with pytest.raises(duly.Conflict):
        await app.deliver("work", 2, key="k")


@each_driver
async def test_a_stream_is_in_the_order_of_the_commits(
    app: App, postgres_url: str, name: str
) -> None:
    seen = record_payloads(app)
    await app.deliver("work", 1, stream="s")
    async with DRIVERS[name](postgres_url) as (connection, _):
        await deliver_with(app, name, connection, "work", 2, stream="s")
        await deliver_with(app, name, connection, "work", 3, stream="s", on_failure="release")
    await app.deliver("work", 4, stream="s")
    assert await run_until_idle(app) == 4
    assert seen == [1, 2, 3, 4]


async def test_sync_connections_can_be_awaited_too(app: App, postgres_url: str) -> None:
    seen = record_payloads(app)
    async with by_psycopg(postgres_url) as (connection, _):
        await app.deliver("work", 1, connection=connection)
    assert await run_until_idle(app) == 1
    assert seen == [1]


async def test_a_sync_program_needs_no_event_loop_and_no_open_app(
    app: App, postgres_url: str
) -> None:
    seen = record_payloads(app)

    def program() -> None:
        closed = App(postgres_url, environment={})
        closed.expect("work")
        with psycopg.connect(postgres_url) as connection:
            closed.deliver_within(connection, "work", 1, at=START)

    await asyncio.to_thread(program)
    assert await run_until_idle(app) == 1
    assert seen == [1]


async def test_concurrent_commits_and_rollbacks_do_not_affect_each_other(
    app: App, postgres_url: str
) -> None:
    seen: list[tuple[str | None, Any]] = []
    committed: list[tuple[str | None, Any]] = []

    @app.handler("work")
    async def work(delivery: duly.Delivery[Any]) -> None:
        seen.append((delivery.stream, delivery.payload))

    async def produce(chance: random.Random, number: int) -> None:
        driver = chance.choice([by_asyncpg, by_psycopg_async, lambda _: own(app)])
        stream = chance.choice([None, "a", "b"])
        async with driver(postgres_url) as (connection, _):
            await app.deliver("work", number, stream=stream, connection=connection)
            await asyncio.wait(
                [asyncio.create_task(app.list(limit=1))]
            )  # other tasks run meanwhile
            if chance.random() < 0.3:
                raise Undo
        committed.append((stream, number))

    async def producer(seed: int) -> None:
        chance = random.Random(seed)
        for number in range(20):
            with contextlib.suppress(Undo):
                await produce(chance, seed * 100 + number)

    producers = asyncio.gather(*map(producer, range(4)))
    while not producers.done():
        await run_until_idle(app)
    await producers
    await run_until_idle(app, within=60)  # streams may be claimed again later
    assert sorted(map(str, seen)) == sorted(map(str, committed))
    for stream in ("a", "b"):
        rows = await sql(
            postgres_url,
            "select convert_from(payload, 'UTF8')::integer from duly.deliveries "
            f"where stream = '{stream}' order by position",
        )
        assert [row[0] for row in rows] == [number for name, number in seen if name == stream]


@contextlib.asynccontextmanager
async def own(app: App) -> AsyncIterator[tuple[Any, Any]]:
    async with app.transaction() as tx:
        yield tx, tx.execute


async def test_every_option_is_stored(app: App, postgres_url: str) -> None:
    record_payloads(app)
    at, until = START.replace(hour=9), START.replace(hour=10)
    async with by_psycopg(postgres_url) as (connection, _):
        one = app.deliver_within(
            connection,
            duly.webhook("https://example.org/in", method="PUT", headers={"x-a": "b"}),
            {"a": [1]},
            at=at,
            key="k",
            priority=8,
            expires_at=until,
            tags=["t", "u"],
            retry=duly.no_retry,
            stream="s",
            on_failure="release",
        )
        two = app.deliver_within(connection, "work", after=90)
    delivery = await app.get(one.id)
    assert (delivery.target, delivery.url, delivery.key, delivery.priority, delivery.tags) == (
        *("https://example.org", "https://example.org/in", "k", 8, ["t", "u"]),
    )
    assert (delivery.due_at, delivery.expires_at, delivery.stream) == (at, until, "s")
    ((address, retry, on_failure),) = await sql(
        postgres_url, "select address, retry, on_failure from duly.deliveries where key = 'k'"
    )
    with_python = await app.deliver(
        duly.webhook("https://example.org/in", method="PUT", headers={"x-a": "b"}),
        {"a": [1]},
        key="k",
    )
    assert with_python.id == one.id
    assert ('"headers":{"x-a":"b"}' in address, retry is None, on_failure) == (
        *(True, False, "release"),
    )
    assert two.due_at == (await app.get(two.id)).due_at == START.replace(minute=31, second=30)


async def test_a_commit_wakes_the_workers(postgres_url: str) -> None:
    app = App(postgres_url, environment={}, poll=60)
    handled: asyncio.Queue[int] = asyncio.Queue()

    @app.handler("work")
    async def work(delivery: duly.Delivery[int]) -> None:
        await handled.put(delivery.payload)

    async with app, running(app):
        await app.deliver("work", 1)
        assert await asyncio.wait_for(handled.get(), 10) == 1
        async with by_psycopg(postgres_url) as (connection, _):
            app.deliver_within(connection, "work", 2)
            with pytest.raises(TimeoutError):  # meanwhile the worker becomes idle
                await asyncio.wait_for(handled.get(), 0.5)
        assert await asyncio.wait_for(handled.get(), 10) == 2


async def test_without_a_transaction_it_is_accepted_at_once(app: App, postgres_url: str) -> None:
    record_payloads(app)
    connection = await asyncpg.connect(postgres_url)
    await app.deliver("work", connection=connection)
    assert len(await app.list()) == 1
    await connection.close()


async def test_an_unknown_kind_of_connection_is_refused(app: App, postgres_url: str) -> None:
    record_payloads(app)
    pool = asyncpg.create_pool(postgres_url)
    for unknown in (object(), 7, "postgresql://", pool, app.transaction()):
        with pytest.raises(
            duly.InvalidInput, match=r"give a connection of asyncpg.*the `tx` of `async with"
        ):
            await app.deliver("work", connection=unknown)
        with pytest.raises(duly.InvalidInput, match="is not one that duly knows"):
            app.deliver_within(unknown, "work")


async def test_an_async_connection_is_refused_in_sync_code(app: App, postgres_url: str) -> None:
    record_payloads(app)
    connection = await asyncpg.connect(postgres_url)
    async with app.transaction() as tx:
        for each in (connection, tx):
            with pytest.raises(duly.InvalidInput, match="it is async"):
                app.deliver_within(each, "work")
    await connection.close()


async def test_a_connection_to_another_kind_of_database_is_refused(app: App, tmp_path: Any) -> None:
    record_payloads(app)
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(duly.InvalidInput, match="leads to sqlite"):
        app.deliver_within(connection, "work")
    engine.dispose()
    with (
        django_connection(f"x://h/{tmp_path}/d", "sqlite3") as connection,
        pytest.raises(duly.InvalidInput, match="leads to sqlite"),
    ):
        app.deliver_within(connections["default"], "work")


async def test_on_sqlite_a_drivers_connection_is_refused(small_app: App, postgres_url: str) -> None:
    record_payloads(small_app)
    connection = await asyncpg.connect(postgres_url)
    with pytest.raises(duly.InvalidInput, match=r"async with app.transaction\(\) as tx"):
        small_app.deliver_within(connection, "work")
    with pytest.raises(duly.InvalidInput, match=r"async with app.transaction\(\) as tx"):
        await small_app.deliver("work", connection=connection)
    await connection.close()
