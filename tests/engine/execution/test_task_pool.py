"""Few tasks for many deliveries, and yet none of them notices the others."""

import asyncio
from contextvars import ContextVar
from typing import Any

from duly.domain.deliveries.delivery import Claimed
from duly.engine.execution.task_pool import TaskPool
from tests.engine.house import Gate, House

WHO: ContextVar[object] = ContextVar("who", default=None)


def claimed(count: int) -> list[Any]:
    return list(range(count))


async def breathe(turns: int = 12) -> None:
    for _ in range(turns):
        await asyncio.tasks.sleep(0)


async def test_deliveries_that_never_wait_share_one_task() -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def carry(each: Claimed, task: asyncio.Task[Any]) -> None:
        tasks.append(task)

    carriers = TaskPool(carry)
    carriers.start(claimed(50))
    await breathe()
    assert len(tasks) == 50
    assert len(set(tasks)) == 1
    assert not carriers.tasks


async def test_a_delivery_that_waits_holds_up_no_other() -> None:
    begun: list[Any] = []
    leave = asyncio.Event()

    async def carry(each: Claimed, task: asyncio.Task[Any]) -> None:
        begun.append(each)
        await leave.wait()

    carriers = TaskPool(carry)
    carriers.start(claimed(100))
    await breathe()
    assert begun == list(range(100))
    leave.set()
    await breathe()
    assert not carriers.tasks


async def test_what_a_handler_puts_into_its_context_is_gone_for_the_next() -> None:
    seen: list[object] = []

    async def carry(each: Claimed, task: asyncio.Task[Any]) -> None:
        seen.append(WHO.get())
        WHO.set(each)

    TaskPool(carry).start(claimed(10))
    await breathe()
    assert seen == [None] * 10


async def test_a_task_that_was_cancelled_carries_no_more() -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def carry(each: Claimed, task: asyncio.Task[Any]) -> None:
        tasks.append(task)
        task.cancel()

    TaskPool(carry).start(claimed(3))
    await breathe()
    assert len(set(tasks)) == 3


async def test_the_deadline_of_one_delivery_never_reaches_the_next(house: House) -> None:
    app = house.app(concurrency=10)
    gate = Gate()

    @app.handler("work", timeout=0.01)
    async def work(delivery: Any) -> None:
        if delivery.payload == "slow":
            await gate.handle(delivery)

    life = await house.born(app)
    slow = await app.deliver("work", "slow")
    await life.tick()
    quick = [await app.deliver("work", n) for n in range(5)]
    await life.tick()
    await life.finish()
    assert (await app.get(slow.id)).reason == "timeout_exceeded"
    assert [(await app.get(each.id)).state for each in quick] == ["completed"] * 5
