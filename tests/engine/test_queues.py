"""Schedules with `overlap="queue"`: one occurrence at a time, in order, without pauses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, Delivery, InvalidInput, State
from duly.domain.streams.policy import stream_of_schedule
from duly.domain.time.rules import every
from duly.engine.execution.execution import TURN_SECONDS
from duly.engine.planner import Planner
from duly.testing import VirtualClock, run_until_idle
from tests.engine.cluster import Barrier, Cluster, WorkerProcess
from tests.engine.conftest import START
from tests.stores.store_probe import StoreProbe

SECONDS = every("1s")
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
STREAM = stream_of_schedule("often")


class Recorder:
    """Records the runs of any number of apps, and whether two ever ran at once."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.inside = self.most_inside = 0
        self.failing: set[str] = set()
        self.hanging: str | None = None
        self.hangs = asyncio.Event()

    def handle(self, app: App) -> None:
        @app.handler("work", retry=duly.delays(600))
        async def work(delivery: Delivery[Any]) -> None:
            if self.hanging == f"{delivery.scheduled_for:%H:%M:%S}":
                self.hangs.set()
                await asyncio.Event().wait()
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
            await asyncio.tasks.sleep(0)
            self.inside -= 1
            self.done.append(f"{delivery.scheduled_for:%H:%M:%S}")
            if self.done[-1] in self.failing:
                raise duly.ValidationFailure("never")


def seconds(*numbers: int) -> list[str]:
    return [f"{START + number * SECOND:%H:%M:%S}" for number in numbers]


async def declare(app: App, target: str = "work", **options: Any) -> None:
    await app.schedule("often", SECONDS, target, overlap="queue", catch_up="all", **options)


async def plan(app: App) -> None:
    await Planner(app.store, app.clock, app.chance, lambda _event: None, poll=1).catch_up()


async def with_due_occurrences(
    cluster: Cluster, recorder: Recorder, many: int, **options: Any
) -> App:
    """An app whose schedule has this many due occurrences, each in a lane of its own."""
    app = cluster.app()
    recorder.handle(app)
    await app.open()
    await declare(app, **options)
    cluster.clock.advance(many * SECOND)
    await plan(app)
    return app


async def until_waiting(barrier: Barrier, process: WorkerProcess) -> None:
    async with asyncio.timeout(10):
        while process.engine.running > barrier.inside:
            await asyncio.tasks.sleep(0)
    await process.engine.worker.settler.flush()


async def until_behind(process: WorkerProcess, barrier: Barrier, stream: str, waiting: int) -> None:
    """Tick until one delivery of the stream runs and this many wait behind it.

    One that finds an earlier lane locked joins later, after `TURN_SECONDS`; for these the clock
    goes on.
    """
    clock: Any = process.app.clock
    async with asyncio.timeout(60):
        while True:
            await process.tick()
            await until_waiting(barrier, process)
            if barrier.inside and (await process.app.streams.get(stream)).waiting == waiting:
                return
            clock.advance(timedelta(seconds=TURN_SECONDS))


@pytest.mark.requirement("C4")
async def test_after_a_slow_run_the_backlog_runs_at_once_and_in_order(
    any_cluster: Cluster,
) -> None:
    app, barrier = any_cluster.app(), Barrier()
    app.handler("gate")(barrier.handle)
    process = await any_cluster.start_worker(app)
    await declare(app, "gate")
    for _ in range(15):
        any_cluster.clock.advance(SECOND)
        process.engine.worker.membership.lease.renew(any_cluster.clock.monotonic())
        await process.engine.worker.planner.catch_up()
        await process.tick()
        await until_waiting(barrier, process)
    assert len(barrier.entered) == 1
    stream = await app.streams.get(STREAM)
    assert (stream.state, stream.waiting, stream.on_failure) == ("running", 14, "queue")
    barrier.open.set()
    await process.finish()
    await run_until_idle(app)
    assert any_cluster.clock.now() == START + 15 * SECOND
    assert [each["scheduled_for"][11:19] for each in barrier.entered] == seconds(*range(1, 16))
    assert barrier.most_inside == 1
    assert (await app.streams.get(STREAM)).state == "idle"


@pytest.mark.requirement("C4", "D4")
async def test_occurrences_due_at_the_start_run_in_order(
    any_cluster: Cluster,
) -> None:
    """Before streams were used every occurrence had its own lane; pending ones still run."""
    recorder = Recorder()
    app = await with_due_occurrences(any_cluster, recorder, 200)
    await run_until_idle(app)
    assert (recorder.done, recorder.most_inside) == (seconds(*range(1, 201)), 1)
    attempts = {each.attempt for each in await app.list(state=State.COMPLETED, limit=200)}
    assert attempts == {1}


@pytest.fixture
async def shared_cluster(postgres_url: str, clock: VirtualClock) -> AsyncIterator[Cluster]:
    """PostgreSQL, where two workers may run."""
    found = Cluster(postgres_url, clock)
    yield found
    await found.close()


@pytest.mark.requirement("C4", "D6")
async def test_two_workers_keep_the_order_and_never_run_two_at_a_time(
    shared_cluster: Cluster,
) -> None:
    recorder = Recorder()
    first = await with_due_occurrences(shared_cluster, recorder, 300)
    second = shared_cluster.app()
    recorder.handle(second)
    await second.open()
    processes = [await shared_cluster.start_worker(each) for each in (first, second)]
    async with asyncio.timeout(60):
        while len(recorder.done) < 300:
            await asyncio.gather(*(each.tick() for each in processes))
            await asyncio.gather(*(each.finish() for each in processes))
            shared_cluster.clock.advance(0.25)
    assert (recorder.done[:300], recorder.most_inside) == (seconds(*range(1, 301)), 1)


@pytest.mark.requirement("C4", "D4")
async def test_a_crash_keeps_the_order(any_cluster: Cluster) -> None:
    recorder = Recorder()
    app = await with_due_occurrences(any_cluster, recorder, 20)
    recorder.hanging = seconds(7)[0]
    process = await any_cluster.start_worker(app)
    async with asyncio.timeout(10):
        while not recorder.hangs.is_set():
            await process.tick()
            await process.engine.worker.settler.flush()
            any_cluster.clock.advance(0.05)
    await process.kill()
    assert recorder.done == seconds(*range(1, 7))
    recorder.hanging = None
    second = any_cluster.app()
    recorder.handle(second)
    await second.open()
    any_cluster.clock.advance(MINUTE)
    await run_until_idle(second)
    assert len(recorder.done) >= 80
    assert recorder.done == seconds(*range(1, len(recorder.done) + 1))
    assert recorder.most_inside == 1


@pytest.mark.requirement("C4", "D10")
async def test_a_dead_occurrence_does_not_block_those_behind_it(any_cluster: Cluster) -> None:
    recorder = Recorder()
    app = await with_due_occurrences(any_cluster, recorder, 5)
    recorder.failing = set(seconds(2))
    await run_until_idle(app)
    assert recorder.done[:5] == seconds(1, 2, 3, 4, 5)
    (dead,) = await app.list(state=State.DEAD)
    assert (dead.stream, (await app.streams.get(STREAM)).state) == (STREAM, "idle")
    recorder.failing = set()
    await app.retry(dead.id)
    await run_until_idle(app)
    assert recorder.done[-1:] == seconds(2)


@pytest.mark.requirement("C4")
async def test_an_occurrence_that_runs_in_its_own_lane_is_waited_for(any_cluster: Cluster) -> None:
    """An older worker, or another overlap, ran it in a lane of its own."""
    recorder = Recorder()
    app = await with_due_occurrences(any_cluster, recorder, 3)
    process = await any_cluster.start_worker(app)
    probe = StoreProbe(app.store, any_cluster.clock)  # type: ignore[arg-type]
    first = sorted(await app.list(), key=lambda each: each.due_at)[0]
    number = "lane" if app.store.single_owner else "lane::text"
    lanes = await probe.sql(f"select {number} as lane from duly.agenda order by due_at limit 1")
    token = process.engine.worker.membership.worker * 2**32 + 77
    held = f"update duly.agenda set token = {token} where {number} = '{lanes[0]['lane']}'"
    await probe.sql(held)
    for _ in range(3):
        await process.tick()
        await process.finish()
        any_cluster.clock.advance(SECOND)
    assert recorder.done == []
    assert {each.attempt for each in await app.list()} == {0}
    await probe.sql("update duly.agenda set token = null where token is not null")
    await run_until_idle(app)
    assert recorder.done[:3] == seconds(1, 2, 3)
    assert (await app.get(first.id)).state == State.COMPLETED


@pytest.mark.requirement("C4")
async def test_triggered_and_backfilled_occurrences_take_turns(any_cluster: Cluster) -> None:
    recorder = Recorder()
    app = await with_due_occurrences(any_cluster, recorder, 3)
    any_cluster.clock.advance(SECOND)
    await app.schedules.trigger("often")
    past = START - 10 * SECOND
    assert sum([each async for each in app.schedules.backfill("often", past, START)]) == 11
    await run_until_idle(app)
    assert recorder.done[:3] == seconds(1, 2, 3)
    assert [each for each in recorder.done if each <= seconds(0)[0]] == seconds(*range(-10, 1))
    assert (len(recorder.done), recorder.most_inside) == (3 + 1 + 1 + 11, 1)


@pytest.mark.requirement("C4")
@pytest.mark.parametrize(("overlap", "ran"), [("allow", True), ("skip", False)])
async def test_a_change_of_overlap_does_not_affect_queued_occurrences(
    any_cluster: Cluster, overlap: str, ran: bool
) -> None:
    app, barrier, other = any_cluster.app(), Barrier(), Barrier()
    app.handler("gate")(barrier.handle)
    app.handler("other")(other.handle)
    other.open.set()
    process = await any_cluster.start_worker(app)
    await declare(app, "gate")
    any_cluster.clock.advance(3 * SECOND)
    await process.engine.worker.planner.catch_up()
    await process.tick()
    await until_waiting(barrier, process)
    await process.tick()
    await until_waiting(barrier, process)
    await app.schedule("often", every("1h"), "other", overlap=overlap)
    any_cluster.clock.advance(HOUR)
    process.engine.worker.membership.lease.renew(any_cluster.clock.monotonic())
    await process.engine.worker.planner.catch_up()
    await process.tick()
    await until_waiting(barrier, process)
    assert (len(other.entered) == 1) is ran
    barrier.open.set()
    await process.finish()
    await run_until_idle(app)
    assert [each["scheduled_for"][11:19] for each in barrier.entered] == seconds(1, 2, 3)


@pytest.mark.requirement("C4", "C10")
async def test_removing_a_schedule_cancels_its_queue(any_cluster: Cluster) -> None:
    app, barrier = any_cluster.app(), Barrier()
    app.handler("gate")(barrier.handle)
    process = await any_cluster.start_worker(app)
    await declare(app, "gate")
    any_cluster.clock.advance(60 * SECOND)
    process.engine.worker.membership.lease.renew(any_cluster.clock.monotonic())
    await process.engine.worker.planner.catch_up()
    await until_behind(process, barrier, STREAM, 59)
    await app.schedules.remove("often")
    barrier.open.set()
    await process.finish()
    await run_until_idle(app)
    # A run that is already claimed continues, as in any stream.
    assert 1 <= len(barrier.entered) <= 32
    states = {each.state for each in await app.list(limit=100)}
    assert states == {State.COMPLETED, State.CANCELLED}
    assert (await app.streams.get(STREAM)).state == "idle"


@pytest.mark.requirement("C4", "C10")
async def test_removing_a_schedule_does_not_affect_running_deliveries_of_its_stream(
    any_cluster: Cluster,
) -> None:
    app, barrier = any_cluster.app(), Barrier()
    app.handler("gate")(barrier.handle)
    process = await any_cluster.start_worker(app)
    await app.schedule("often", SECONDS, "gate", catch_up="all", stream="team")
    any_cluster.clock.advance(SECOND)
    await process.engine.worker.planner.catch_up()
    await until_behind(process, barrier, "team", 0)
    any_cluster.clock.advance(5 * SECOND)
    await process.engine.worker.planner.catch_up()
    await until_behind(process, barrier, "team", 5)
    await app.deliver("gate", "another", stream="team")
    assert (await app.streams.get("team")).waiting == 6
    await app.streams.pause("team")
    await app.schedules.remove("often")
    barrier.open.set()
    await process.finish()
    await app.streams.resume("team")
    await run_until_idle(app)
    states = sorted(each.state for each in await app.list(limit=100))
    assert states.count(State.CANCELLED) + len(barrier.entered) == 8
    assert states.count(State.COMPLETED) == len(barrier.entered)
    assert barrier.entered[-1] == "another"


@pytest.mark.requirement("C4", "C10")
async def test_a_queue_that_is_not_held_is_cancelled_completely(any_cluster: Cluster) -> None:
    recorder = Recorder()
    app = await with_due_occurrences(any_cluster, recorder, 150)
    await app.schedule("other", every("1h"), "work", stream="other")
    process = await any_cluster.start_worker(app)
    await process.engine.worker.dispatcher.tick()
    await process.kill()
    second = any_cluster.app()
    await second.open()
    await second.schedules.remove("often")
    await run_until_idle(second)
    assert {each.state for each in await second.list(schedule="often")} <= {State.CANCELLED}


@pytest.mark.requirement("C4")
async def test_the_stream_of_a_schedule_is_reserved(any_cluster: Cluster) -> None:
    app = any_cluster.app()
    app.handler("work")(Barrier().handle)
    async with app:
        with pytest.raises(InvalidInput, match="belong to schedules"):
            await app.deliver("work", stream=STREAM)
        with pytest.raises(InvalidInput, match="belong to schedules"):
            await app.schedule("mine", SECONDS, "work", stream=STREAM)
        with pytest.raises(InvalidInput, match="belongs to a schedule"):
            await app.streams.configure(STREAM, on_failure="block")
