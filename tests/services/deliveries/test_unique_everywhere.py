"""A unique key means the same wherever a delivery comes from and wherever it goes to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly import App
from duly.errors import Conflict
from duly.testing import VirtualClock, run_until_idle
from tests.services.drivers import ASYNC, PLAIN, deliver_with
from tests.services.transfers import export_lines, import_lines
from tests.services.work import Work, running, until_set

pytestmark = pytest.mark.requirement("P7")
UNIQUE: dict[str, Any] = {"key": "k", "unique": "pending", "on_duplicate": "replace"}


async def test_a_handler_delivers_with_it(app: App) -> None:
    seen = []

    @app.handler("total")
    async def total(customer: int, amount: int) -> None:
        seen.append((customer, amount))

    once = total.using(key="7", unique="pending", on_duplicate="replace", after=5)
    first = await once.deliver(7, 1)
    second = await once.deliver(7, 2)
    third = await asyncio.to_thread(once.sync.deliver, 7, 3)
    many = await app.deliver_many([once.item(7, 4), once.item(7, 5), total.item(8, 6)])
    assert {second.id, third.id, many[0].id, many[1].id} == {first.id} != {many[2].id}
    assert [each.known for each in (first, second, third, *many)] == [False, *[True] * 4, False]
    await run_until_idle(app, within=5)
    assert sorted(seen) == [(7, 5), (8, 6)]


async def test_a_handler_that_delivers_its_own_key_runs_once_more(live: Work) -> None:
    seen, app = [], live.app

    @app.handler("again")
    async def again(delivery: Any) -> None:
        seen.append((delivery.payload, delivery.key))
        if delivery.payload < 2:
            payload = delivery.payload + 1
            await app.deliver("again", payload, connection=delivery.transaction, **UNIQUE)

    await app.deliver("again", 0, **UNIQUE)
    async with running(app):
        while len(seen) < 3:
            await app.list()
    assert seen == [(0, "k"), (1, "k"), (2, "k")]


@pytest.mark.parametrize("committed", [True, False])
async def test_it_is_replaced_if_and_only_if_the_transaction_commits(
    work: Work, committed: bool
) -> None:
    first = await work.app.deliver("work", "a", after=5, **UNIQUE)
    try:
        async with work.app.transaction() as tx:
            second = await work.app.deliver("work", "b", connection=tx, **UNIQUE)
            assert (second.id, second.known) == (first.id, True)
            if not committed:
                raise RuntimeError
    except RuntimeError:
        pass
    await run_until_idle(work.app, within=5)
    assert work.seen == (["b"] if committed else ["a"])


@pytest.mark.parametrize("name", [*ASYNC, *PLAIN])
async def test_every_driver_delivers_with_it(
    postgres_url: str, clock: VirtualClock, name: str
) -> None:
    async with App(postgres_url, clock=clock, environment={}) as app:
        work = Work(app)
        async with (ASYNC | PLAIN)[name](postgres_url) as (connection, _):
            first = await deliver_with(app, name, connection, "work", 1, after=5, **UNIQUE)
            later = UNIQUE | {"on_duplicate": "postpone", "latest": 20, "after": 15}
            second = await deliver_with(app, name, connection, "work", 2, **later)
            third = await deliver_with(app, name, connection, "work", 3, key="k", unique="pending")
        assert first.id == second.id == third.id
        assert [each.known for each in (first, second, third)] == [False, True, True]
        found = await app.get(first.id)
        assert (found.payload, found.replaced, found.key) == (2, 1, "k")
        assert (found.due_at - first.due_at).total_seconds() == 10
        await run_until_idle(app, within=20)
        assert work.seen == [2]


async def test_it_goes_along_with_an_export(app: App, other: App, clock: VirtualClock) -> None:
    work, there = Work(app), Work(other)
    first = await app.deliver("work", "a", after=60, **UNIQUE)
    clock.advance(1)
    await app.deliver("work", "b", after=60, **UNIQUE)
    lines = await export_lines(app)
    clock.advance(1)
    waits = await other.deliver("work", "older", after=50, key="x", unique="pending")
    await import_lines(other, lines)
    found = await other.get(first.id)
    assert (found.payload, found.unique, found.replaced) == ("b", "pending", 1)
    assert found.replaced_at == (await app.get(first.id)).replaced_at
    assert (await other.deliver("work", "c", **UNIQUE)).id == first.id
    await run_until_idle(other, within=60)
    assert sorted(there.seen) == ["c", "older"]
    assert work.seen == []
    assert waits.id != first.id


async def test_an_import_lets_the_one_with_newer_contents_wait(
    app: App, other: App, clock: VirtualClock
) -> None:
    Work(app)
    Work(other)
    old = await app.deliver("work", "old", **UNIQUE)
    lines = await export_lines(app)
    clock.advance(1)
    new = await other.deliver("work", "new", **UNIQUE)
    await import_lines(other, lines)
    states = [
        (each.state, each.reason) for each in (await other.get(old.id), await other.get(new.id))
    ]
    assert states == [("cancelled", "superseded"), ("pending", None)]


async def test_all_with_a_unique_key_are_listed_and_counted_by_it(
    work: Work, clock: VirtualClock
) -> None:
    app = work.app
    ids = []
    for number in range(5):
        ids.append((await app.deliver("work", number, **UNIQUE)).id)
        clock.advance(number)
        await run_until_idle(app)
    ids.append((await app.deliver("other", 9, key="k")).id)
    page = await app.deliveries.page(key="k", limit=4)
    rest = await app.deliveries.page(key="k", limit=4, before=page.next)
    assert [each.id for each in (*page.items, *rest.items)] == ids[::-1]
    assert rest.next is None
    counted = (await app.deliveries.counts(key="k")).states
    assert (counted["completed"], counted["pending"]) == (5, 1)
    late = await app.deliveries.page(key="k", sort="lateness", limit=3)
    assert [each.id for each in late.items[:2]] == [ids[4], ids[3]]
    assert [each.id for each in await app.list(text="k")]


async def test_what_waits_for_a_running_one_says_so_and_cannot_be_hurried(live: Work) -> None:
    live.waits("a")
    first = await live.app.deliver("work", "a", **UNIQUE)
    async with running(live.app):
        await until_set(live.began["a"])
        second = await live.app.deliver("work", "b", **UNIQUE)
        detail = await live.app.deliveries.detail(second.id)
        assert first.id in (detail.waits or "")
        with pytest.raises(Conflict, match="same unique key, which runs"):
            await live.app.retry(second.id)
        assert (await live.app.cancel(second.id)).state == "cancelled"
        third = await live.app.deliver("work", "c", **UNIQUE)
        assert (await live.app.get(third.id)).next_at is None
        live.events["a"].set()
        await live.until(third.id, "completed")
    assert live.seen == ["a", "c"]
