"""Delivering in duly's own transactions, on both stores: all is committed, or nothing."""

import asyncio
import contextlib
from contextvars import Context
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START, record_payloads
from tests.services.work import running

pytestmark = pytest.mark.requirement("F10")
WITHIN = 10.0


def placeholder(app: App) -> str:
    return "?" if app.store.single_owner else "$1"


@pytest.fixture
async def app(app: App) -> App:
    async with app.transaction() as tx:
        await tx.execute("create table orders (number integer)")
    return app


async def orders(app: App) -> list[Any]:
    async with app.transaction() as tx:
        return [row[0] for row in await tx.fetch("select number from orders order by number")]


async def test_a_committed_delivery_is_stored_with_the_callers_rows(app: App) -> None:
    seen = record_payloads(app)
    async with app.transaction() as tx:
        await tx.execute(f"insert into orders values ({placeholder(app)})", 7)
        accepted = await app.deliver("work", {"order": 7}, connection=tx)
        assert (accepted.due_at, accepted.known) == (START, False)
        assert await app.list() == []
        assert await tx.fetch("select number from orders") == [(7,)]
    assert await orders(app) == [7]
    assert await run_until_idle(app) == 1
    assert seen == [{"order": 7}]
    assert (await app.get(accepted.id)).state == "completed"


async def test_a_rolled_back_delivery_is_not_stored(app: App) -> None:
    record_payloads(app)
    with contextlib.suppress(ZeroDivisionError):
        async with app.transaction() as tx:
            await tx.execute(f"insert into orders values ({placeholder(app)})", 7)
            await app.deliver("work", 7, key="k", stream="s", connection=tx)
            raise ZeroDivisionError
    assert await orders(app) == []
    assert await app.list() == []
    assert await app.streams.list() == []
    assert await run_until_idle(app) == 0
    assert not (await app.deliver("work", 8, key="k")).known


async def test_a_cancelled_block_delivers_nothing(app: App) -> None:
    record_payloads(app)
    inside = asyncio.Event()

    async def caller() -> None:
        async with app.transaction() as tx:
            await app.deliver("work", 7, connection=tx)
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(caller())
    await asyncio.wait_for(inside.wait(), WITHIN)
    task.cancel()
    await asyncio.wait([task], timeout=WITHIN)
    assert await app.list() == []
    await app.deliver("work", 8)
    assert await run_until_idle(app) == 1


async def test_refusals_do_not_change_the_transaction(app: App) -> None:
    record_payloads(app)
    async with app.transaction() as tx:
        first = await app.deliver("work", 1, key="k", connection=tx)
        second = await app.deliver("work", 1, key="k", connection=tx)
        assert (second.id, second.known) == (first.id, True)
        with pytest.raises(duly.Conflict, match="key 'k' already belongs"):
            await app.deliver("work", 2, key="k", connection=tx)
        with pytest.raises(duly.InvalidInput, match="no handler 'nowhere' is known"):
            await app.deliver("nowhere", connection=tx)
        with pytest.raises(duly.NotFound, match="no endpoint 'none'"):
            await app.deliver(duly.endpoint("none"), connection=tx)
    assert [each.id for each in await app.list()] == [first.id]


async def test_new_hosts_and_streams_are_created_in_the_transaction(app: App) -> None:
    seen = record_payloads(app)
    await app.deliver("work", 1, stream="s")
    async with app.transaction() as tx:
        hook = duly.webhook("https://example.org/hook")
        for number in (1, 2):
            await app.deliver(hook, number, connection=tx, after=60)
        for number in (2, 3):
            await app.deliver("work", number, stream="s", connection=tx)
    await app.deliver("work", 4, stream="s")
    assert await run_until_idle(app) == 4
    assert seen == [1, 2, 3, 4]
    waiting = await app.list(state="pending")
    assert [each.url for each in waiting] == ["https://example.org/hook"] * 2


async def test_a_handler_delivers_with_its_completion_or_not_at_all(app: App) -> None:
    seen = record_payloads(app, "next")

    @app.handler("first", retry=duly.delays(1))
    async def first(delivery: Delivery[int]) -> None:
        await delivery.transaction.execute(
            f"insert into orders values ({placeholder(app)})", delivery.attempt
        )
        await app.deliver("next", delivery.attempt, connection=delivery.transaction)
        async with delivery.transaction as transaction:
            await app.deliver("next", delivery.attempt + 10, connection=transaction)
        if delivery.attempt == 1:
            raise ValueError("not yet")

    await app.deliver("first", 1)
    assert await run_until_idle(app, within=60) == 4
    assert sorted(seen) == [2, 12]
    assert await orders(app) == [2]


async def test_the_workers_are_woken_by_the_commit(database_url: str) -> None:
    app = App(database_url, environment={}, poll=60)
    handled: asyncio.Queue[int] = asyncio.Queue()

    @app.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        await handled.put(delivery.payload)
        if delivery.payload == 2:
            await app.deliver("work", 3, connection=delivery.transaction)

    async with app, running(app):
        await app.deliver("work", 1)
        assert await asyncio.wait_for(handled.get(), WITHIN) == 1
        async with app.transaction() as tx:
            await app.deliver("work", 2, connection=tx)
            with pytest.raises(TimeoutError):  # meanwhile the worker becomes idle
                await asyncio.wait_for(handled.get(), 0.5)
        assert await asyncio.wait_for(handled.get(), WITHIN) == 2
        assert await asyncio.wait_for(handled.get(), WITHIN) == 3


async def test_a_call_that_would_wait_for_its_own_transaction_is_refused(app: App) -> None:
    record_payloads(app)
    async with app.transaction():
        with pytest.raises(duly.Conflict, match="in a transaction"):
            async with app.transaction():
                pass
        if app.store.single_owner:
            for call in (app.deliver("work", 1), app.deliver_many([("work", 1)])):
                with pytest.raises(duly.Conflict, match="deliver in it with `connection=`"):
                    await asyncio.wait_for(call, WITHIN)
    async with app.transaction() as tx:
        await app.deliver("work", 1, connection=tx)
    assert len(await app.list()) == 1


async def test_the_error_in_a_transaction_names_the_connection_argument(small_app: App) -> None:
    errors: list[str] = []

    @small_app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.transaction.fetch("select 1")
        try:
            await small_app.deliver("work")
        except duly.Conflict as error:
            errors.append(str(error))

    await small_app.deliver("work")
    assert await run_until_idle(small_app) == 1
    assert "connection=" in errors[0]


async def test_concurrent_statements_take_turns(app: App) -> None:
    seen = record_payloads(app)
    insert = f"insert into orders values ({placeholder(app)})"

    @app.handler("many", retry=duly.no_retry)
    async def many(delivery: Delivery[Any]) -> None:
        tx = delivery.transaction
        deliveries = [app.deliver("work", number, connection=tx) for number in range(3)]
        await asyncio.gather(*deliveries, *(tx.execute(insert, number) for number in range(3)))

    async with app.transaction() as tx:
        inserts = [tx.execute(insert, number) for number in (3, 4)]
        await asyncio.gather(app.deliver("many", connection=tx), *inserts)
    assert await run_until_idle(app) == 4
    assert sorted(seen) == [0, 1, 2]
    assert await orders(app) == [0, 1, 2, 3, 4]


async def test_a_call_left_running_in_a_block_never_writes_after_its_end(app: App) -> None:
    async with app.transaction() as tx:
        late = [asyncio.create_task(tx.fetch("select 1")) for _ in range(3)]
        await asyncio.sleep(0)
    for answer in await asyncio.gather(*late, return_exceptions=True):
        assert answer == [(1,)] or isinstance(answer, duly.Conflict)
    async with app.transaction() as tx:
        assert await tx.fetch("select 1") == [(1,)]


@pytest.mark.parametrize("held", ["stream", "key"])
async def test_a_delivery_without_key_and_stream_waits_for_no_transaction(
    postgres_url: str, held: str
) -> None:
    async with App(postgres_url, environment={}) as app:
        record_payloads(app)
        await app.deliver("work", 0)
        options: Any = {held: "held"}
        async with app.transaction() as tx:
            await app.deliver("work", 1, connection=tx, **options)
            waiting = asyncio.create_task(app.deliver("work", 1, **options))
            await asyncio.wait([waiting], timeout=0.2)
            assert not waiting.done()
            await asyncio.wait_for(app.deliver("work", 2), WITHIN)
            assert not waiting.done()
        assert (await asyncio.wait_for(waiting, WITHIN)).known is (held == "key")


async def test_a_transaction_begun_by_a_task_belongs_to_the_whole_handler(small_app: App) -> None:
    errors: list[str] = []
    record_payloads(small_app, "other")
    waiting = await small_app.deliver("other", after=3600)

    @small_app.handler("work", retry=duly.no_retry, timeout=WITHIN)
    async def work(delivery: Delivery[Any]) -> None:
        calls = [delivery.transaction.execute("select 1"), small_app.cancel(waiting.id)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for call in (small_app.cancel(waiting.id), small_app.deliver("other")):
            answers += await asyncio.gather(call, return_exceptions=True)
        errors.extend(str(each) for each in answers if isinstance(each, duly.Conflict))

    await small_app.deliver("work")
    assert await run_until_idle(small_app) == 1
    assert len(errors) == 3
    assert all("deliver in it with `connection=`" in each for each in errors)
    assert (await small_app.cancel(waiting.id)).state == "cancelled"


async def test_others_share_a_commit_with_a_handler_but_not_its_transaction(
    small_app: App,
) -> None:
    others: list[asyncio.Task[Any]] = []
    record_payloads(small_app, "other")

    @small_app.handler("work", retry=duly.no_retry, timeout=WITHIN)
    async def work(delivery: Delivery[Any]) -> None:
        mine = asyncio.create_task(small_app.deliver("other", 1))
        for _ in range(3):
            await asyncio.sleep(0)
        deliver = small_app.deliver("other", 2)
        others.append(asyncio.get_running_loop().create_task(deliver, context=Context()))
        await delivery.transaction.execute("select 1")
        await mine

    await small_app.deliver("work")
    assert await run_until_idle(small_app) >= 2
    assert not (await asyncio.wait_for(others[0], WITHIN)).known


async def test_an_ended_transaction_accepts_nothing(app: App) -> None:
    record_payloads(app)
    async with app.transaction() as tx:
        pass
    for call in (tx.execute("select 1"), tx.fetch("select 1")):
        with pytest.raises(duly.Conflict, match="the transaction is over"):
            await call
    with pytest.raises(duly.Conflict, match="the transaction is over"):
        await app.deliver("work", connection=tx)
    with pytest.raises(duly.Conflict):
        assert tx.connection
    assert await app.list() == []


async def test_another_apps_transaction_is_refused(
    app: App, database_url: str, clock: VirtualClock
) -> None:
    record_payloads(app)
    async with App(database_url, clock=clock, environment={}) as other, other.transaction() as tx:
        with pytest.raises(duly.InvalidInput, match="no transaction of this app"):
            await app.deliver("work", connection=tx)


async def deliver_and_fail(app: App) -> None:
    async with app.transaction() as tx:
        await app.deliver("work", connection=tx)
        with pytest.raises(Exception, match=r"no such table|does not exist"):
            await tx.execute("insert into nowhere values (1)")


async def test_a_failed_statement_is_not_committed_over(app: App) -> None:
    record_payloads(app)
    if app.store.single_owner:
        await deliver_and_fail(app)  # SQLite rolls back a failed statement by itself
        assert len(await app.list()) == 1
        return
    with pytest.raises(duly.Conflict, match="PostgreSQL kept nothing of it"):
        await deliver_and_fail(app)
    assert await app.list() == []
    async with app.transaction() as tx:
        await app.deliver("work", connection=tx)
        with pytest.raises(Exception, match="does not exist"):
            async with tx.connection.transaction():
                await tx.execute("insert into nowhere values (1)")
    assert len(await app.list()) == 1
