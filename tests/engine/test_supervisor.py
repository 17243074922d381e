"""The whole engine with its loops: start, work, failures, stop."""

import asyncio
from typing import Any

import pytest

from duly import App, Delivery
from duly.errors import StoreIsOwned
from duly.failpoints import FailpointRaised, arm
from tests.engine.cluster import only_delivery, states

DEADLINE_SECONDS = 30


def counting_app(url: str, **settings: Any) -> tuple[App, asyncio.Semaphore, list[Any]]:
    """A real app whose handler records the payload and releases a semaphore."""
    app = App(url, environment={}, **{"poll": 0.05, **settings})
    handled, seen = asyncio.Semaphore(0), []

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        seen.append(delivery.payload)
        handled.release()

    return app, handled, seen


async def wait_for(handled: asyncio.Semaphore, times: int) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        for _ in range(times):
            await handled.acquire()


@pytest.mark.parametrize("place", ["claim.before", "claim.after", "settle.before", "settle.after"])
async def test_the_loops_survive_a_failure_at_every_failpoint(
    database_url: str, place: str
) -> None:
    app, handled, seen = counting_app(database_url)
    async with app:
        await app.deliver_many(("work", number) for number in range(20))
        arm(f"{place}=drop@1")
        engine = app.engine()
        await engine.start()
        await wait_for(handled, 20)
        await app.deliver("work", "after")
        await wait_for(handled, 1)
        await engine.stop()
        assert await states(app) == {"completed": 21}
        assert app.telemetry.counts["refused"] == 0
    assert sorted(seen, key=str) == sorted([*range(20), "after"], key=str)


@pytest.mark.requirement("D14")
async def test_a_failing_heartbeat_continues(database_url: str) -> None:
    app, handled, _ = counting_app(database_url, lease=6)
    async with app:
        arm("heartbeat.before=raise@1")
        engine = app.engine()
        await engine.start()
        await app.deliver("work")
        await wait_for(handled, 1)
        beats = set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(beats) < 2:  # the registration, and the first that did not fail
                (worker,) = await app.store.workers.all()
                beats.add(worker.beat_at)
        await engine.stop()


@pytest.mark.requirement("D3")
async def test_a_failed_start_leaves_no_heartbeat_running(sqlite_url: str) -> None:
    first, _, _ = counting_app(sqlite_url)
    async with first:
        await first.deliver("work")
        engine = first.engine(stepped=True)
        await engine.prepare()
        await engine.worker.dispatcher.tick()
    second, _, _ = counting_app(sqlite_url)
    async with second:
        arm("reclaim.before=raise")
        engine = second.engine()
        with pytest.raises(FailpointRaised):
            await engine.start()
        assert not engine.worker.membership.is_beating
        assert engine.running == 0
        assert (await only_delivery(second)).state == "processing"


async def test_a_second_engine_on_the_same_file_is_refused(sqlite_url: str) -> None:
    first, _, _ = counting_app(sqlite_url)
    second, _, _ = counting_app(sqlite_url)
    async with first, second:
        engine = first.engine()
        await engine.start()
        with pytest.raises(StoreIsOwned, match="use PostgreSQL to run several"):
            await second.engine().start()
        await engine.stop()
    async with second:
        engine = second.engine()
        await engine.start()
        await engine.stop()


@pytest.mark.requirement("D6")
async def test_two_workers_share_the_work_and_none_is_done_twice(postgres_url: str) -> None:
    apps = [counting_app(postgres_url, concurrency=7) for _ in range(2)]
    first = apps[0][0]
    async with first, apps[1][0] as second:
        await first.deliver_many(("work", number) for number in range(300))
        engines = [first.engine(), second.engine()]
        for engine in engines:
            await engine.start()
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await first.list(state="pending", limit=1) or await first.list(
                state="processing", limit=1
            ):
                await asyncio.tasks.sleep(0)
        for engine in engines:
            await engine.stop()
        assert await states(first) == {"completed": 300}
    assert sorted(apps[0][2] + apps[1][2]) == list(range(300))


async def test_a_hint_from_another_process_wakes_the_worker(postgres_url: str) -> None:
    app, handled, _ = counting_app(postgres_url, poll=60)
    producer, _, _ = counting_app(postgres_url)
    async with app, producer:
        engine = app.engine()
        await engine.start()
        wakeups: Any = app.store.wakeups
        async with asyncio.timeout(DEADLINE_SECONDS):
            while wakeups._ear is None:
                await asyncio.tasks.sleep(0)
        # More than once, since the survey after the start may find the first.
        for _ in range(5):
            await producer.deliver("work")
            await wait_for(handled, 1)
        await engine.stop()
