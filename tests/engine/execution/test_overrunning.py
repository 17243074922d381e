"""Handlers that cannot be ended: their deliveries stay held, and no other is blocked."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest

import duly
import duly.testing
from duly import App, Delivery, Reason
from duly.engine.execution import delivery_runner as dispatching
from duly.transports.handlers import deadlines
from tests.engine.cluster import Cluster, WorkerProcess, only_delivery

SECONDS = 20
NAME: ContextVar[str] = ContextVar("name", default="")


@pytest.fixture
def leave() -> Iterator[threading.Event]:
    """Lets the threads of the test end, at the latest when the test ends."""
    found = threading.Event()
    yield found
    found.set()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time until a handler is cancelled again."""
    monkeypatch.setattr(deadlines, "FIRST_AGAIN", 0.01)
    monkeypatch.setattr(dispatching, "CANCEL_SECONDS", (0.02, 0.02))


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not is_so():
            await asyncio.tasks.sleep(0)


def swallowing(app: App, *, until_cancelled: int) -> list[int]:
    """A handler that continues until it was cancelled this often; returns the count."""
    cancelled = [0]

    @app.handler("swallow", timeout=0.02, retry=duly.no_retry)
    async def swallow(delivery: Delivery[Any]) -> None:
        while cancelled[0] < until_cancelled:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled[0] += 1

    return cancelled


def hanging(app: App, leave: threading.Event, **options: Any) -> list[Any]:
    """A plain handler that hangs until `leave` is set; returns its payloads."""
    entered: list[Any] = []

    @app.handler("hang", **{"timeout": 0.02, "retry": duly.delays(0), **options})
    def hang(delivery: Delivery[Any]) -> None:
        entered.append(delivery.payload)
        assert leave.wait(SECONDS)

    return entered


@pytest.mark.requirement("F5", "D7")
async def test_a_stream_waits_for_a_thread_that_runs_on_after_its_timeout(
    any_cluster: Cluster, leave: threading.Event
) -> None:
    app = any_cluster.app()
    entered = hanging(app, leave)
    process = await any_cluster.start_worker(app)
    first = await app.deliver("hang", 1, stream="s")
    await app.deliver("hang", 2, stream="s")
    await process.tick()
    await until(lambda: app.telemetry.counts["HandlerOverran"] == 1)
    assert await process.tick() == 1
    assert entered == [1]
    (stuck, *_) = await app.list(state="processing")
    assert stuck.id == first.id
    leave.set()
    await process.finish()
    delivery = await app.get(first.id)
    assert (delivery.state, delivery.reason, delivery.attempt) == (
        "pending",
        Reason.TIMEOUT_EXCEEDED,
        1,
    )
    assert app.telemetry.counts["HandlerOverran"] == 1


@pytest.mark.requirement("D7")
async def test_a_handler_that_overruns_its_timeout_is_shown_as_stuck(
    any_cluster: Cluster, leave: threading.Event
) -> None:
    app = any_cluster.app()
    hanging(app, leave)
    process = await any_cluster.start_worker(app)
    accepted = await app.deliver("hang")
    await process.tick()
    await until(lambda: app.telemetry.counts["HandlerOverran"] == 1)
    any_cluster.clock.advance(3000)
    await app.store.workers.beat(process.engine.worker.membership.worker)
    (found,) = await app.stats.stuck(timedelta(seconds=300))
    assert found.id == accepted.id
    assert "has been running it since" in found.why
    leave.set()
    await process.finish()


@pytest.mark.requirement("F5")
async def test_hanging_threads_use_only_their_own_slots(
    cluster: Cluster, leave: threading.Event
) -> None:
    app, done = cluster.app(concurrency=5), []
    entered = hanging(app, leave)

    @app.handler("healthy", timeout=0.5, retry=duly.no_retry)
    def healthy(delivery: Delivery[int]) -> None:
        done.append(delivery.payload)

    process = await cluster.start_worker(app)
    await app.deliver_many([("hang", n) for n in range(4)])
    await until_running(process, 4)
    await until(lambda: app.telemetry.counts["HandlerOverran"] == 4)
    await app.deliver_many([("healthy", n) for n in range(10)])
    async with asyncio.timeout(SECONDS):
        while len(done) < 10:
            await process.tick()
            await process.engine.worker.settler.flush()
    leave.set()
    await process.finish()
    assert sorted(done) == list(range(10))
    assert sorted(entered) == [0, 1, 2, 3]
    assert {each.state for each in await app.list(target="healthy")} == {"completed"}


async def until_running(process: WorkerProcess, many: int) -> None:
    async with asyncio.timeout(SECONDS):
        while await process.tick() < many:
            pass


@pytest.mark.requirement("F5")
async def test_threads_left_behind_do_not_block_a_later_worker(
    cluster: Cluster, leave: threading.Event
) -> None:
    app, done = cluster.app(concurrency=1, drain=0), threading.Event()
    entered = hanging(app, leave)

    @app.handler("healthy", timeout=SECONDS)
    def healthy(delivery: Delivery[Any]) -> None:
        done.set()

    process = await cluster.start_worker(app)
    await app.deliver("hang")
    await until_running(process, 1)
    await until(lambda: bool(entered))
    await process.engine.stop()
    accepted = await app.deliver("healthy", priority=9)
    later = await cluster.start_worker(app)
    await later.tick()
    await later.engine.worker.settler.flush()
    await until(done.is_set)
    await later.engine.worker.runner.drain(0)
    await later.engine.worker.settler.flush()
    assert (await app.get(accepted.id)).state == "completed"
    leave.set()
    await until(lambda: not process.engine.running)


@pytest.mark.requirement("D13", "D7")
@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_deliveries_whose_handlers_cannot_be_ended_stay_held_when_the_worker_stops(
    any_cluster: Cluster, leave: threading.Event, kind: str
) -> None:
    app = any_cluster.app(drain=0)
    entered, released = hanging(app, leave, timeout=SECONDS), asyncio.Event()

    @app.handler("swallow", timeout=SECONDS)
    async def swallow(delivery: Delivery[Any]) -> None:
        entered.append(delivery.payload)
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()

    process = await any_cluster.start_worker(app)
    accepted = await app.deliver("hang" if kind == "thread" else "swallow", 7)
    await until_running(process, 1)
    await until(lambda: bool(entered))
    async with asyncio.timeout(SECONDS):
        await process.engine.stop()
    assert app.telemetry.counts["WorkerStopped"] == 1
    (row,) = await app.store.workers.all()
    assert (row.ended_how, row.holding) == (None, 1)
    assert (await app.get(accepted.id)).state == "processing"
    leave.set()
    released.set()
    await until(lambda: not process.engine.running)


@pytest.mark.requirement("D13")
async def test_a_thread_that_ends_within_the_drain_time_is_completed(
    any_cluster: Cluster, leave: threading.Event
) -> None:
    app = any_cluster.app()
    entered = hanging(app, leave, timeout=SECONDS)
    process = await any_cluster.start_worker(app)
    accepted = await app.deliver("hang", 7)
    await until_running(process, 1)
    await until(lambda: bool(entered))
    stopping = asyncio.create_task(process.engine.worker.runner.drain(0))
    await process.yield_to_tasks()
    leave.set()
    assert await stopping == 1
    await process.engine.worker.settler.flush()
    delivery = await app.get(accepted.id)
    assert (delivery.state, delivery.attempt) == ("completed", 1)


@pytest.mark.requirement("F1")
async def test_a_deadline_cancels_again_until_the_handler_ends(any_cluster: Cluster) -> None:
    app = any_cluster.app()
    cancelled = swallowing(app, until_cancelled=3)
    process = await any_cluster.start_worker(app)
    await app.deliver("swallow")
    await process.tick()
    async with asyncio.timeout(SECONDS):
        await process.finish()
    assert cancelled == [3]
    delivery = await only_delivery(app)
    assert (delivery.state, delivery.reason) == ("dead", Reason.TIMEOUT_EXCEEDED)
    assert app.telemetry.counts["HandlerOverran"] == 1


@pytest.mark.requirement("D13")
async def test_a_stop_cancels_again_until_the_handler_ends(any_cluster: Cluster) -> None:
    app, entered = any_cluster.app(), asyncio.Event()

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        entered.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    process = await any_cluster.start_worker(app)
    await app.deliver("work")
    await process.tick()
    assert entered.is_set()
    assert await process.engine.worker.runner.drain(0) == 1
    await process.engine.worker.settler.flush()
    delivery = await only_delivery(app)
    assert (delivery.state, delivery.attempt) == ("pending", 0)


@pytest.mark.requirement("D13")
async def test_an_error_during_a_stop_spends_no_attempt(any_cluster: Cluster) -> None:
    app = any_cluster.app()

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("the connection that it closes is gone")

    process = await any_cluster.start_worker(app)
    await app.deliver("work")
    await process.tick()
    await process.engine.worker.runner.drain(0)
    await process.engine.worker.settler.flush()
    delivery = await only_delivery(app)
    assert (delivery.state, delivery.attempt) == ("pending", 0)


async def test_a_plain_handler_sees_the_context_of_its_attempt(cluster: Cluster) -> None:
    app, seen = cluster.app(), []

    @app.handler("work")
    def work(delivery: Delivery[Any]) -> None:
        seen.append(NAME.get())
        NAME.set("inner")

    async with named(), app:
        await app.deliver_many([("work", None)] * 2)
        await duly.testing.run_until_idle(app)
    assert seen == ["outer", "outer"]
    assert NAME.get() == ""


@asynccontextmanager
async def named() -> AsyncIterator[None]:
    token = NAME.set("outer")
    yield
    NAME.reset(token)
