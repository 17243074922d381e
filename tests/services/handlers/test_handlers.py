"""Handlers: async, in threads, typed, and in a transaction."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import threading
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

import duly
from duly import App, Delivery
from duly.stores.sqlite.database import Sqlite
from duly.testing import VirtualClock, run_until_idle
from tests.stores.store_probe import StoreProbe


class StructOrder(msgspec.Struct):
    number: int
    note: str = "none"


@dataclasses.dataclass
class DataclassOrder:
    number: int
    note: str = "none"


class ModelOrder(pydantic.BaseModel):
    number: int
    note: str = "none"


class DictOrder(TypedDict):
    number: int
    note: str


async def test_a_typed_payload_arrives_as_its_type(small_app: App) -> None:
    received: list[Any] = []

    @small_app.handler("struct")
    async def struct(delivery: Delivery[StructOrder]) -> None:
        received.append(delivery.payload)

    @small_app.handler("dataclass")
    async def data(delivery: Delivery[DataclassOrder]) -> None:
        received.append(delivery.payload)

    @small_app.handler("model")
    async def model(delivery: Delivery[ModelOrder]) -> None:
        received.append(delivery.payload)

    @small_app.handler("dict")
    async def typed_dict(delivery: duly.Delivery[DictOrder]) -> None:
        received.append(delivery.payload)

    @small_app.handler("untyped")
    async def untyped(delivery):  # type: ignore[no-untyped-def]
        received.append(delivery.payload)

    await small_app.deliver("struct", StructOrder(1), priority=9)
    await small_app.deliver("dataclass", DataclassOrder(2), priority=8)
    await small_app.deliver("model", ModelOrder(number=3), priority=7)
    await small_app.deliver("dict", {"number": 4, "note": "n"}, priority=6)
    await small_app.deliver("untyped", StructOrder(5), priority=5)
    assert await run_until_idle(small_app) == 5
    assert sorted(received, key=repr) == sorted(
        [
            StructOrder(1),
            DataclassOrder(2),
            ModelOrder(number=3),
            {"number": 4, "note": "n"},
            {"number": 5, "note": "none"},
        ],
        key=repr,
    )


async def test_every_kind_of_callable_can_be_a_handler(small_app: App) -> None:
    received: list[Any] = []

    class Callable:
        async def __call__(self, delivery: Delivery[int]) -> None:
            received.append(("object", delivery.payload))

        async def method(self, delivery: Delivery[int]) -> None:
            received.append(("method", delivery.payload))

    async def with_more(delivery: Any, *, more: str) -> None:
        received.append((more, delivery.payload))

    small_app.handler("object")(Callable())
    small_app.handler("method")(Callable().method)
    small_app.handler("partial")(functools.partial(with_more, more="partial"))
    small_app.handler("lambda")(lambda delivery: received.append(("lambda", delivery.payload)))
    for name in ("object", "method", "partial", "lambda"):
        await small_app.deliver(name, 7)
    assert await run_until_idle(small_app) == 4
    assert sorted(received) == [("lambda", 7), ("method", 7), ("object", 7), ("partial", 7)]


async def test_sync_functions_run_concurrently_in_threads(small_app: App) -> None:
    meeting = threading.Barrier(3, timeout=20)
    threads: list[str] = []

    @small_app.handler("meet")
    def meet(delivery: Delivery[Any]) -> None:
        meeting.wait()
        threads.append(threading.current_thread().name)

    @small_app.handler("warm")
    def warm(delivery: Delivery[Any]) -> None:
        threads.append(threading.current_thread().name)

    await small_app.deliver("warm")
    await run_until_idle(small_app)
    # Now one thread is idle, and three more are needed at once.
    await small_app.deliver_many([("meet", None)] * 3)
    assert await run_until_idle(small_app) == 3
    assert threading.main_thread().name not in threads
    assert [each.state for each in await small_app.list()] == ["completed"] * 4


async def test_a_blocking_function_does_not_block_the_others(small_app: App) -> None:
    released = threading.Event()

    @small_app.handler("blocks")
    def blocks(delivery: Delivery[Any]) -> None:
        assert released.wait(20)

    @small_app.handler("releases")
    async def releases(delivery: Delivery[Any]) -> None:
        released.set()

    await small_app.deliver("blocks", priority=9)
    await small_app.deliver("releases", priority=1)
    assert await run_until_idle(small_app) == 2
    assert {each.state for each in await small_app.list()} == {"completed"}


def placeholder(app: App) -> str:
    return "?" if isinstance(app.store.database, Sqlite) else "$1"  # type: ignore[attr-defined]


async def sql(app: App, text: str) -> list[dict[str, Any]]:
    return await StoreProbe(app.store, app.clock).sql(text)  # type: ignore[arg-type]


@pytest.fixture
async def effects(app: App) -> App:
    """An app with a table to write to."""
    await sql(app, "create table effects (value integer)")
    return app


async def written(app: App) -> list[int]:
    return [row["value"] for row in await sql(app, "select value from effects order by value")]


@pytest.mark.requirement("D9")
async def test_writes_in_a_handlers_transaction_happen_exactly_once(effects: App) -> None:
    @effects.handler("work", retry=duly.delays(1, 1))
    async def work(delivery: Delivery[int]) -> None:
        sql = f"insert into effects values ({placeholder(effects)})"
        await delivery.transaction.execute(sql, delivery.payload)
        if delivery.attempt < 3:
            raise ValueError("after writing")

    accepted = await effects.deliver("work", 7)
    assert await run_until_idle(effects) == 1
    assert await written(effects) == []
    assert await run_until_idle(effects, within=60) == 2
    assert await written(effects) == [7]
    delivery = await effects.get(accepted.id)
    assert (delivery.state, delivery.attempt) == ("completed", 3)
    history = [each.outcome for each in await effects.deliveries.history(accepted.id)]
    assert history == ["retry", "retry", "completed"]


@pytest.mark.requirement("D9")
async def test_a_dead_delivery_leaves_no_effect(effects: App) -> None:
    @effects.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        async with delivery.transaction as transaction:
            await transaction.execute("insert into effects values (1)")
            await transaction.execute("insert into effects values (2)")
        raise duly.Fail("too late")

    await effects.deliver("work")
    await run_until_idle(effects)
    assert await written(effects) == []
    assert [each.state for each in await effects.list()] == ["dead"]


@pytest.mark.requirement("D9")
async def test_all_forms_of_using_a_transaction_are_one_transaction(effects: App) -> None:
    rows: list[Any] = []

    @effects.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.transaction.execute("insert into effects values (1)")
        transaction = await delivery.transaction
        await transaction.execute("insert into effects values (2)")
        async with delivery.transaction as same:
            assert same is transaction
        rows.extend(await delivery.transaction.fetch("select count(*) from effects"))

    await effects.deliver("work")
    assert await run_until_idle(effects) == 1
    assert rows == [(2,)]
    assert await written(effects) == [1, 2]


@pytest.mark.requirement("D9")
async def test_two_concurrent_statements_begin_one_transaction(effects: App) -> None:
    begun: list[int] = []

    @effects.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        first, second = await asyncio.gather(
            delivery.transaction.__aenter__(), delivery.transaction.__aenter__()
        )
        begun.extend([id(first), id(second)])
        await first.execute("insert into effects values (1)")

    await effects.deliver("work")
    assert await asyncio.wait_for(run_until_idle(effects), 20) == 1
    assert len(set(begun)) == 1
    assert await written(effects) == [1]


@pytest.mark.requirement("D9")
async def test_a_commit_that_the_database_refuses_is_a_failed_attempt(effects: App) -> None:
    await sql(effects, "create table parents (id integer primary key)")
    rule = "references parents (id) deferrable initially deferred"
    await sql(effects, f"create table children (parent integer {rule})")

    @effects.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.transaction.execute("insert into effects values (1)")
        await delivery.transaction.execute("insert into children values (7)")

    await effects.deliver("work")
    assert await run_until_idle(effects) == 1
    (delivery,) = await effects.list()
    assert (delivery.state, delivery.reason) == ("dead", "handler_exception")
    assert (delivery.error or "").startswith("at its commit: ")
    assert await written(effects) == []
    assert await sql(effects, "select * from children") == []


@pytest.mark.requirement("D9")
async def test_a_connection_lost_before_the_commit_spends_no_attempt(
    postgres_url: str, clock: VirtualClock
) -> None:
    app = App(postgres_url, clock=clock, environment={})
    lost: list[int] = []

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.transaction.execute("insert into effects values (1)")
        if not lost:
            ((backend,),) = await delivery.transaction.fetch("select pg_backend_pid()")
            lost.append(backend)
            await sql(app, f"select pg_terminate_backend({backend}, 5000)")

    async with app:
        await sql(app, "create table effects (value integer)")
        accepted = await app.deliver("work")
        assert await run_until_idle(app) == 2
        assert await written(app) == [1]
        delivery = await app.get(accepted.id)
        assert (delivery.state, delivery.attempt) == ("completed", 1)
        history = [each.outcome for each in await app.deliveries.history(accepted.id)]
        assert history == ["released", "completed"]


@pytest.mark.requirement("D9")
async def test_the_transaction_of_an_ended_attempt_is_refused(effects: App) -> None:
    kept: list[Any] = []

    @effects.handler("late")
    async def late(delivery: Delivery[Any]) -> None:
        kept.append(delivery.transaction)

    @effects.handler("used")
    async def used(delivery: Delivery[Any]) -> None:
        await delivery.transaction.execute("insert into effects values (1)")
        kept.append(delivery.transaction)

    await effects.deliver("late")
    await effects.deliver("used")
    assert await run_until_idle(effects) == 2
    for transaction in kept:
        with pytest.raises(duly.Conflict, match="has ended"):
            await asyncio.wait_for(transaction.execute("insert into effects values (2)"), 20)
    assert await written(effects) == [1]
    await effects.deliver("late")


async def test_many_concurrent_transactions_wait_for_each_other(effects: App) -> None:
    @effects.handler("other")
    async def other(delivery: Delivery[Any]) -> None: ...

    @effects.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        await effects.deliver("other", delivery.payload)
        sql = f"insert into effects values ({placeholder(effects)})"
        await delivery.transaction.execute(sql, delivery.payload)

    await effects.deliver_many(("work", number) for number in range(30))
    assert await asyncio.wait_for(run_until_idle(effects), 30) == 60
    assert await written(effects) == list(range(30))


async def test_delivering_inside_a_transaction_never_hangs(effects: App) -> None:
    on_sqlite = isinstance(effects.store.database, Sqlite)  # type: ignore[attr-defined]
    refusals: list[str] = []

    @effects.handler("other")
    async def other(delivery: Delivery[Any]) -> None: ...

    @effects.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        await effects.deliver("other", "before")
        await delivery.transaction.execute("insert into effects values (1)")
        for call in (
            lambda: effects.deliver("other", "inside"),
            lambda: effects.deliver_many([("other", "inside")]),
            lambda: effects.cancel(delivery.id),
        ):
            try:
                await call()
            except duly.Conflict as refused:
                refusals.append(str(refused))

    await effects.deliver("work")
    await asyncio.wait_for(run_until_idle(effects), 20)
    assert await written(effects) == [1]
    if on_sqlite:
        assert len([each for each in refusals if "in a transaction on SQLite" in each]) == 3
        assert len(await effects.list(target="other")) == 1
    else:
        assert len(await effects.list(target="other")) == 3
    await effects.deliver("other", "afterwards")
    assert {each.state for each in await effects.list(target="work")} == {"completed"}
