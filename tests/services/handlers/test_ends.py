"""How attempts end when handlers misbehave: nothing is lost, and no other delivery is blocked."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime, timedelta
from typing import Any

import pytest

import duly
from duly.domain.deliveries.identifiers import token
from duly.system import SystemClock
from duly.testing import VirtualClock, run_until_idle
from tests.stores.store_probe import StoreProbe


async def sql(app: duly.App, text: str) -> list[dict[str, Any]]:
    return await StoreProbe(app.store, app.clock).sql(text)  # type: ignore[arg-type]


@pytest.mark.requirement("D1", "D9")
async def test_an_abandoned_transaction_loses_no_delivery(database_url: str) -> None:
    app = duly.App(database_url, clock=VirtualClock(), environment={})
    calls: list[asyncio.Task[None]] = []

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: duly.Delivery[Any]) -> None:
        calls.append(asyncio.ensure_future(delivery.transaction.execute("select 1")))
        raise ValueError("the other half failed")

    async with app:
        await app.deliver_many([("work", None)] * 5)
        await run_until_idle(app)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert any(isinstance(each, duly.Conflict) for each in answers)
        app.expect("later")
        accepted = [await app.deliver("later", n) for n in range(10)]
    async with duly.App(database_url, environment={}) as other:
        for each in accepted:
            assert (await other.get(each.id)).state == "pending"


@pytest.mark.requirement("D5")
async def test_handlers_that_all_hold_a_transaction_can_still_deliver(postgres_url: str) -> None:
    app = duly.App(postgres_url, clock=VirtualClock(), environment={})
    everyone = asyncio.Barrier(4)  # as many transactions of handlers as there are by default

    @app.handler("follow")
    async def follow(delivery: duly.Delivery[Any]) -> None: ...

    @app.handler("work", timeout=20)
    async def work(delivery: duly.Delivery[Any]) -> None:
        await delivery.transaction.execute("select 1")
        await everyone.wait()
        await app.deliver("follow")

    async with app:
        await app.deliver_many([("work", None)] * 8)
        assert await run_until_idle(app) == 16


@pytest.mark.requirement("D9")
async def test_a_transaction_ended_by_sqlite_completes_nothing(sqlite_url: str) -> None:
    app = duly.App(sqlite_url, clock=VirtualClock(), environment={})

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: duly.Delivery[Any]) -> None:
        await delivery.transaction.execute("insert into effects values (1)")
        with contextlib.suppress(Exception):
            await delivery.transaction.execute("insert or rollback into effects values (1)")

    async with app:
        await sql(app, "create table effects (value integer unique)")
        accepted = await app.deliver("work")
        await run_until_idle(app)
        delivery = await app.get(accepted.id)
    assert (delivery.state, delivery.reason) == ("dead", "handler_exception")


@pytest.mark.requirement("F1")
async def test_whatever_a_handler_raises_is_settled(database_url: str) -> None:
    class Odd(BaseException):
        """Not even an Exception."""

    app = duly.App(database_url, clock=VirtualClock(), environment={})

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: duly.Delivery[Any]) -> None:
        raise Odd("what is this")

    async with app:
        accepted = await app.deliver("work")
        await run_until_idle(app)
        delivery = await app.get(accepted.id)
    assert (delivery.state, delivery.reason) == ("dead", "unknown")
    assert "Odd" in (delivery.error or "")


@pytest.mark.requirement("D3", "D8")
async def test_an_outcome_that_the_store_refuses_does_not_block_others(
    database_url: str,
) -> None:
    app = duly.App(database_url, clock=VirtualClock(), environment={})

    @app.handler("work")
    async def work(delivery: duly.Delivery[Any]) -> None:
        if delivery.payload == "changed":
            await sql(
                app,
                "update duly.deliveries set state = 'cancelled'"
                f" where id = '{delivery.id}' and state = 'pending'",
            )

    async with app:
        changed = await app.deliver("work", "changed")
        others = await app.deliver_many([("work", n) for n in range(20)])
        await run_until_idle(app)
        assert (await app.get(changed.id)).state in ("cancelled", "processing")
        for each in others:
            assert (await app.get(each.id)).state == "completed"


@pytest.mark.requirement("D7")
async def test_a_claim_that_arrives_after_it_was_handed_back_is_handed_back_again(
    database_url: str,
) -> None:
    clock = VirtualClock()
    app = duly.App(database_url, clock=clock, environment={})

    @app.handler("work")
    async def work(delivery: duly.Delivery[Any]) -> None: ...

    async with app:
        accepted = await app.deliver("work")
        engine = app.engine(stepped=True)
        await engine.prepare()
        lost = token(engine.worker.membership.worker, 999)
        engine.worker.claims._doubt([lost])
        await engine.worker.claims.hand_back()
        await sql(app, f"update duly.agenda set token = {lost}")
        await StoreProbe(app.store, app.clock).record_claim(lost)  # type: ignore[arg-type]
        clock.advance(1)
        await engine.worker.step()
        await engine.worker.step()
        assert (await app.get(accepted.id)).state == "completed"
        await engine.stop()


class SlowClock(SystemClock):
    """A clock that is behind the database's."""

    def now(self) -> datetime:
        """A minute ago."""
        return super().now() - timedelta(minutes=1)


@pytest.mark.requirement("D2", "D11")
async def test_the_databases_clock_decides_what_is_due(postgres_url: str) -> None:
    app = duly.App(postgres_url, clock=SlowClock(), environment={})
    started = asyncio.Event()
    lateness: list[timedelta] = []

    @app.handler("work")
    async def work(delivery: duly.Delivery[Any]) -> None:
        lateness.append(delivery.late_by)
        started.set()

    async with app:
        running = asyncio.create_task(app.run(signals=False))
        await app.deliver("work")
        await asyncio.wait_for(started.wait(), 20)
        app.stop()
        await running
    assert timedelta() <= lateness[0] < timedelta(seconds=20)
