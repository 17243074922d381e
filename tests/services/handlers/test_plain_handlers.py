"""Sync handlers, which run in threads, can use their delivery like async ones."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.stores.deliveries.inbox import Message
from duly.stores.sqlite.database import Sqlite
from duly.testing import run_until_idle
from duly.transports.handlers.handled_delivery import HandledDelivery
from duly.transports.handlers.steps import HandlerStep
from duly.transports.handlers.transactions import HandlerTransaction
from tests.stores.store_probe import StoreProbe

pytestmark = pytest.mark.requirement("D9")


async def sql(app: App, text: str) -> list[dict[str, Any]]:
    return await StoreProbe(app.store, app.clock).sql(text)  # type: ignore[arg-type]


def insert(app: App) -> str:
    is_sqlite = isinstance(app.store.database, Sqlite)  # type: ignore[attr-defined]
    return f"insert into effects values ({'?' if is_sqlite else '$1'})"


@pytest.fixture
async def effects(app: App) -> App:
    """An app with a table to write to."""
    await sql(app, "create table effects (value integer)")
    return app


async def written(app: App) -> list[int]:
    return [row["value"] for row in await sql(app, "select value from effects order by value")]


async def test_writes_of_a_sync_handler_happen_exactly_once(effects: App) -> None:
    rows: list[Any] = []

    @effects.handler("work", retry=duly.delays(1))
    def work(delivery: Delivery[int]) -> None:
        assert delivery.transaction.execute(insert(effects), delivery.payload) is None
        with delivery.transaction as transaction:
            transaction.execute(insert(effects), delivery.payload + 1)
            rows.append(transaction.fetch("select count(*) from effects"))
        rows.append(delivery.transaction.fetch("select count(*) from effects"))
        if delivery.attempt == 1:
            raise ValueError("after writing")

    accepted = await effects.deliver("work", 7)
    assert await run_until_idle(effects) == 1
    assert await written(effects) == []
    assert await run_until_idle(effects, within=60) == 1
    assert rows == [[(2,)]] * 4
    assert await written(effects) == [7, 8]
    assert (await effects.get(accepted.id)).state == "completed"


async def test_a_sync_handler_handles_a_message_once(effects: App) -> None:
    answers: list[Any] = []

    @effects.handler("work")
    def work(delivery: Delivery[int]) -> None:
        message = delivery.once("billing", "m-1")
        if message.is_new:
            message.execute(insert(effects), delivery.payload)
            message.keep({"invoice": message.fetch("select value from effects")[0][0]})
        answers.append(message.result)

    await effects.deliver("work", 7)
    await run_until_idle(effects)
    await effects.deliver("work", 8)
    await run_until_idle(effects)
    assert answers == [{"invoice": 7}] * 2
    assert await written(effects) == [7]
    assert {each.state for each in await effects.list()} == {"completed"}


CALLS: dict[tuple[type, str], Callable[[Any], Any]] = {
    (HandledDelivery, "once"): lambda delivery: delivery.once("walk"),
    (HandledDelivery, "step"): lambda delivery: delivery.step("a").__enter__(),
    (HandledDelivery, "do"): lambda delivery: delivery.do("b", lambda: 1),
    (HandlerTransaction, "execute"): lambda delivery: delivery.transaction.execute("select 1"),
    (HandlerTransaction, "fetch"): lambda delivery: delivery.transaction.fetch("select 1"),
    (HandlerTransaction, "opened"): lambda delivery: delivery.transaction.opened().fetch(
        "select 1"
    ),
    (HandlerStep, "keep"): lambda delivery: delivery.step("c").keep(1),
    (Message, "keep"): lambda delivery: delivery.once("kept").keep(1),
    (Message, "opened"): lambda delivery: delivery.once("walk").opened(),
    (HandledDelivery, "progress"): lambda delivery: delivery.progress(0.5),
    (Message, "execute"): lambda delivery: delivery.once("walk").execute("select 1"),
    (Message, "fetch"): lambda delivery: delivery.once("walk").fetch("select 1"),
}
"""Every call that a handler can make on its delivery and the objects it returns."""


def test_every_public_call_is_tested() -> None:
    kinds = (HandledDelivery, HandlerTransaction, HandlerStep, Message)
    public = {
        (kind, name)
        for kind in kinds
        for name, found in vars(kind).items()
        if not name.startswith("_") and inspect.isfunction(found)
    }
    assert public == CALLS.keys()


@pytest.mark.parametrize(("kind", "name"), CALLS)
async def test_every_call_of_a_sync_handler_takes_effect(app: App, kind: type, name: str) -> None:
    answers: list[Any] = []

    @app.handler("work", retry=duly.no_retry)
    def work(delivery: Delivery[Any]) -> None:
        answers.append(CALLS[kind, name](delivery))

    await app.deliver("work")
    assert await asyncio.wait_for(run_until_idle(app), 20) == 1
    (delivery,) = await app.list()
    assert (delivery.state, delivery.error) == ("completed", None)
    assert [inspect.isawaitable(each) for each in answers] == [False]


@pytest.mark.parametrize("used", ["execute", "once"])
async def test_a_handlers_own_event_loop_is_refused(app: App, used: str) -> None:
    @app.handler("work", retry=duly.no_retry)
    def work(delivery: Delivery[Any]) -> None:
        async def within() -> None:
            if used == "execute":
                await delivery.transaction.execute("select 1")
            else:
                await delivery.once("walk")

        asyncio.run(within())

    await app.deliver("work")
    await asyncio.wait_for(run_until_idle(app), 20)
    (delivery,) = await app.list()
    assert delivery.state == "dead"
    assert "this event loop is not the one that the delivery is attempted on" in str(delivery.error)


async def test_other_writes_of_a_sync_handler_in_a_transaction_never_hang(effects: App) -> None:
    loop, refused = asyncio.get_running_loop(), []

    @effects.handler("other")
    async def other(delivery: Delivery[Any]) -> None: ...

    @effects.handler("work")
    def work(delivery: Delivery[Any]) -> None:
        delivery.transaction.execute(insert(effects), 1)
        delivering = asyncio.run_coroutine_threadsafe(effects.deliver("other"), loop)
        refused.append(delivering.exception(20))

    await effects.deliver("work")
    await asyncio.wait_for(run_until_idle(effects), 30)
    assert await written(effects) == [1]
    is_sqlite = isinstance(effects.store.database, Sqlite)  # type: ignore[attr-defined]
    assert [isinstance(each, duly.Conflict) for each in refused] == [is_sqlite]
