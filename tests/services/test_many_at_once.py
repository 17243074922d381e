"""More concurrent callers than connections: all proceed, and none hangs."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest

import duly
from duly import App
from duly.stores.store import CONNECTIONS

pytestmark = pytest.mark.requirement("D14")
MANY = 3 * CONNECTIONS


async def all_of(calls: Sequence[Awaitable[Any]]) -> list[Any]:
    async with asyncio.timeout(30):
        return await asyncio.gather(*calls)


async def test_concurrent_schedules_for_new_targets(app: App) -> None:
    app.expect(*(f"new{n}" for n in range(MANY)))
    rule = duly.every("1h")
    declared = await all_of([app.schedule(f"s{n}", rule, f"new{n}") for n in range(MANY)])
    assert {each.change for each in declared} == {"created"}
    assert len(await app.schedules.list(limit=100)) == MANY


async def test_concurrent_batches_for_endpoints_and_new_hosts(app: App) -> None:
    for n in range(MANY):
        await app.endpoints.add(f"e{n}", "https://example.org/hook")
    items = [
        [(duly.endpoint(f"e{n}"), 1), (duly.webhook(f"https://a{n}.example.org/"), 2)]
        for n in range(MANY)
    ]
    accepted = await all_of([app.deliver_many(each) for each in items])
    assert sum(map(len, accepted)) == 2 * MANY
    assert len(await app.list(limit=100)) == 2 * MANY


async def test_concurrent_transactions(app: App) -> None:
    app.expect(*(f"new{n}" for n in range(MANY)))

    async def in_one(n: int) -> None:
        async with app.transaction() as transaction:
            await app.deliver(f"new{n}", n, connection=transaction)

    await all_of([in_one(n) for n in range(MANY)])
    assert len(await app.list(limit=100)) == MANY
