"""Plain handlers, which run in threads, call their App with `app.sync`."""

import asyncio
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.testing import VirtualClock, run_until_idle

SECONDS = 30
pytestmark = pytest.mark.requirement("P2")


async def attempts(app: App, target: str) -> list[Any]:
    """Deliver to a handler and return its attempts, when it is completed or dead."""
    async with asyncio.timeout(SECONDS), app:
        accepted = await app.deliver(target)
        await run_until_idle(app, within=60)
        return [await app.get(accepted.id), [each.payload for each in await app.list(tag="made")]]


@pytest.mark.parametrize("how", ["property", "block"])
async def test_a_delivery_joins_the_transaction_of_a_plain_handler(
    database_url: str, how: str
) -> None:
    app = App(database_url, clock=VirtualClock(), environment={})
    app.expect("other")

    @app.handler("work", retry=duly.delays(1))
    def work(delivery: Delivery[Any]) -> None:
        tx = delivery.transaction if how == "property" else delivery.transaction.__enter__()
        app.sync.deliver("other", delivery.attempt, connection=tx, tags=["made"], after=3600)
        if delivery.attempt == 1:
            raise ValueError("after delivering")

    delivery, made = await attempts(app, "work")
    assert (delivery.state, delivery.attempt) == ("completed", 2)
    assert made == [2]


async def test_a_plain_handler_delivers_outside_of_its_transaction(database_url: str) -> None:
    app = App(database_url, clock=VirtualClock(), environment={})
    app.expect("other")
    errors: list[str] = []

    @app.handler("work", retry=duly.no_retry)
    def work(delivery: Delivery[Any]) -> None:
        app.sync.deliver("other", 1, tags=["made"], after=3600)
        try:
            app.sync.deliver("nowhere")
        except duly.InvalidInput as error:
            errors.append(str(error))
        raise ValueError("after delivering")

    delivery, made = await attempts(app, "work")
    assert (delivery.state, made, len(errors)) == ("dead", [1], 1)


async def test_a_write_beside_the_handlers_own_transaction_is_refused(sqlite_url: str) -> None:
    app = App(sqlite_url, clock=VirtualClock(), environment={})
    app.expect("other")
    refused: list[str] = []

    @app.handler("work")
    def work(delivery: Delivery[Any]) -> None:
        delivery.transaction.fetch("select 1")
        try:
            app.sync.deliver("other")
        except duly.Conflict as error:
            refused.append(str(error))

    delivery, _ = await attempts(app, "work")
    assert delivery.state == "completed"
    assert "connection=" in refused[0]


async def test_a_misuse_in_an_async_handler_fails_the_attempt_with_the_remedy(
    sqlite_url: str,
) -> None:
    app = App(sqlite_url, clock=VirtualClock(), environment={})

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        app.sync.deliver("work")

    delivery, _ = await attempts(app, "work")
    assert "await app.deliver(...)" in delivery.error
