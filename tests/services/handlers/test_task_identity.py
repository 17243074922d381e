"""Each delivery has a task of its own, for libraries that keep something for the current task."""

import asyncio
import gc
import weakref
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker

import duly
from duly import App
from duly.testing import run_until_idle

pytestmark = pytest.mark.requirement("P1")
MANY = 50


@pytest.mark.parametrize("options", [{}, {"stream": "one"}], ids=["alone", "in a stream"])
async def test_each_delivery_has_its_own_session(small_app: App, options: Any) -> None:
    scoped = async_scoped_session(async_sessionmaker(), scopefunc=asyncio.current_task)
    seen: list[AsyncSession] = []

    @small_app.handler("work")
    async def work(delivery: duly.Delivery) -> None:
        assert scoped() is scoped()
        seen.append(scoped())

    await small_app.deliver_many({"target": "work", **options} for _ in range(MANY))
    await run_until_idle(small_app)

    assert len({id(each) for each in seen}) == MANY


async def test_each_delivery_has_its_own_weakly_kept_things(small_app: App) -> None:
    kept: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
    found = []

    @small_app.handler("work")
    async def work(delivery: duly.Delivery) -> None:
        found.append(kept.setdefault(asyncio.current_task(), delivery.id))

    await small_app.deliver_many([("work", None)] * MANY)
    await run_until_idle(small_app)

    assert len(set(found)) == MANY


async def test_deliveries_that_leave_nothing_behind_share_a_task(small_app: App) -> None:
    tasks = set()

    @small_app.handler("work")
    async def work(delivery: duly.Delivery) -> None:
        tasks.add(id(asyncio.current_task()))

    gc.disable()  # a task that is freed may give its id to another one
    await small_app.deliver_many([("work", None)] * MANY)
    await run_until_idle(small_app)
    gc.enable()

    assert len(tasks) < MANY / 2
