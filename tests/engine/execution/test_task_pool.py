"""Many deliveries share few tasks, without affecting each other."""

import asyncio
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from duly.domain.deliveries.delivery import Claimed
from duly.engine.execution.task_pool import TaskPool
from tests.engine.cluster import Barrier, Cluster

CURRENT: ContextVar[object] = ContextVar("current", default=None)


NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)


def claimed(count: int) -> list[Claimed]:
    return [
        Claimed(str(n), str(n), 1, 1, b"", 0, 5, 0, NOW, NOW, None, None, None)
        for n in range(count)
    ]


async def yield_to_tasks(turns: int = 12) -> None:
    for _ in range(turns):
        await asyncio.tasks.sleep(0)


async def test_deliveries_that_never_wait_share_one_task() -> None:
    names: list[str] = []

    async def run(each: Claimed, task: asyncio.Task[Any]) -> None:
        names.append(task.get_name())

    pool = TaskPool(run, 100)
    pool.start(claimed(50))
    await yield_to_tasks()
    assert len(names) == 50
    assert len(set(names)) == 1
    assert not pool.tasks


async def test_a_task_that_somebody_keeps_is_not_used_again() -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def run(each: Claimed, task: asyncio.Task[Any]) -> None:
        tasks.append(task)

    pool = TaskPool(run, 100)
    pool.start(claimed(50))
    await yield_to_tasks(60)
    assert len(set(tasks)) == 50
    assert not pool.tasks


async def test_a_waiting_delivery_does_not_block_others() -> None:
    begun: list[Any] = []
    leave = asyncio.Event()

    async def run(each: Claimed, task: asyncio.Task[Any]) -> None:
        begun.append(int(each.id))
        await leave.wait()

    pool = TaskPool(run, 100)
    pool.start(claimed(100))
    await yield_to_tasks()
    assert begun == list(range(100))
    leave.set()
    await yield_to_tasks()
    assert not pool.tasks


async def test_the_context_of_one_delivery_is_not_visible_to_the_next() -> None:
    seen: list[object] = []

    async def run(each: Claimed, task: asyncio.Task[Any]) -> None:
        seen.append(CURRENT.get())
        CURRENT.set(each)

    TaskPool(run, 100).start(claimed(10))
    await yield_to_tasks()
    assert seen == [None] * 10


async def test_a_cancelled_task_is_not_reused() -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def run(each: Claimed, task: asyncio.Task[Any]) -> None:
        tasks.append(task)
        task.cancel()

    TaskPool(run, 100).start(claimed(3))
    await yield_to_tasks()
    assert len(set(tasks)) == 3


async def test_the_deadline_of_one_delivery_does_not_affect_the_next(cluster: Cluster) -> None:
    app = cluster.app(concurrency=10)
    barrier = Barrier()

    @app.handler("work", timeout=0.01)
    async def work(delivery: Any) -> None:
        if delivery.payload == "slow":
            await barrier.handle(delivery)

    process = await cluster.start_worker(app)
    slow = await app.deliver("work", "slow")
    await process.tick()
    quick = [await app.deliver("work", n) for n in range(5)]
    await process.tick()
    await process.finish()
    assert (await app.get(slow.id)).reason == "timeout_exceeded"
    assert [(await app.get(each.id)).state for each in quick] == ["completed"] * 5


async def test_what_starts_later_runs_after_a_drain() -> None:
    begun = asyncio.Event()

    async def run(_: Claimed, __: asyncio.Task[Any]) -> None:
        begun.set()

    pool = TaskPool(run, 100)
    pool.start_all()  # the worker lost its lease, and has another one now
    pool.start_later(0.0, claimed(1))
    await asyncio.wait_for(begun.wait(), 30)
    assert not pool.waiting
