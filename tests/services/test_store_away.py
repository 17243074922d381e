"""A store that is unavailable while a handler uses it spends no attempt; another store does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import duly
from duly import App, Delivery, Reason
from duly.errors import StoreUnavailable
from duly.stores.sqlite.database import Sqlite
from duly.testing import VirtualClock, run_until_idle
from tests.stores.store_probe import StoreProbe

pytestmark = pytest.mark.requirement("V1", "D9")


async def sql(app: App, text: str) -> list[dict[str, Any]]:
    return await StoreProbe(app.store, app.clock).sql(text)  # type: ignore[arg-type]


async def test_a_connection_lost_during_a_handler_spends_no_attempt(
    postgres_url: str, clock: VirtualClock
) -> None:
    app, lost = App(postgres_url, clock=clock, environment={}), []

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        ((backend,),) = await delivery.transaction.fetch("select pg_backend_pid()")
        if not lost:
            lost.append(backend)
            await sql(app, f"select pg_terminate_backend({backend}, 5000)")
        await delivery.transaction.execute("insert into effects values (1)")

    async with app:
        await sql(app, "create table effects (value integer)")
        accepted = await app.deliver("work")
        assert await run_until_idle(app, within=10) == 2
        delivery = await app.get(accepted.id)
        assert (delivery.state, delivery.attempt) == ("completed", 1)
        assert len(await sql(app, "select * from effects")) == 1


def unavailable_once(monkeypatch: pytest.MonkeyPatch, app: App) -> None:
    """Make the next acceptance fail."""
    accept, error = app.store.deliveries.accept, StoreUnavailable("gone", source=app.store.source)

    async def accepting(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(app.store.deliveries, "accept", accept)
        raise error

    monkeypatch.setattr(app.store.deliveries, "accept", accepting)


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_handler_that_cannot_deliver_is_handed_back(
    app: App, monkeypatch: pytest.MonkeyPatch, grouped: bool
) -> None:
    @app.handler("next")
    async def follow(delivery: Delivery[Any]) -> None: ...

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        if grouped:
            async with asyncio.TaskGroup() as group:
                group.create_task(app.deliver("next", key="once"))
        else:
            await app.deliver("next", key="once")

    accepted = await app.deliver("work")
    await app.deliver("next", "known")
    unavailable_once(monkeypatch, app)
    await run_until_idle(app, within=10)
    delivery = await app.get(accepted.id)
    assert (delivery.state, delivery.attempt) == ("completed", 1)


async def test_another_unavailable_store_is_a_failed_dependency(app: App, tmp_path: Path) -> None:
    other = App(f"sqlite:///{tmp_path}/other.db", environment={})
    other.expect("theirs")

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await other.deliver("theirs")

    accepted = await app.deliver("work")
    await run_until_idle(app)
    delivery = await app.get(accepted.id)
    assert (delivery.state, delivery.reason) == ("dead", Reason.DEPENDENCY_FAILURE)


STATEMENTS = {
    "no such table": ("insert into nowhere values (1)", ()),
    "too many parameters": ("select 1", (1, 2)),
    "cannot be parsed": ("selec", ()),
}


@pytest.mark.parametrize("wrong", STATEMENTS)
async def test_a_wrong_statement_is_the_handlers_error(app: App, wrong: str) -> None:
    statement, parameters = STATEMENTS[wrong]

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.transaction.execute(statement, *parameters)

    accepted = await app.deliver("work")
    await run_until_idle(app)
    delivery = await app.get(accepted.id)
    assert (delivery.state, delivery.reason) == ("dead", Reason.HANDLER_EXCEPTION)


async def test_a_parameter_that_cannot_be_sent_is_the_handlers_error(app: App) -> None:
    mark = "?" if isinstance(app.store.database, Sqlite) else "$1::int"  # type: ignore[attr-defined]

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.transaction.execute(f"select {mark}", object())

    accepted = await app.deliver("work")
    await run_until_idle(app)
    assert (await app.get(accepted.id)).reason == Reason.HANDLER_EXCEPTION
