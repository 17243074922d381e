"""While late work is drained, the instance reports its count, rate and remaining time."""

import asyncio
import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from duly import App, Delivery, delays, webhook
from duly.domain.events import Event, RecoveryBegan, RecoveryEnded, RecoveryGoesOn
from duly.domain.time.rules import cron
from duly.engine.monitoring.backlog import (
    LOOK_SECONDS,
    REPORT_SECONDS,
    REST,
    WHILE_RECOVERING,
    Backlog,
    BacklogStatus,
    LateAttempts,
)
from duly.testing import run_until_idle
from tests.engine.cluster import Barrier, Cluster, directory
from tests.engine.conftest import START

pytestmark = pytest.mark.requirement("D12")

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


class Watch:
    """A backlog whose ticks the test runs, and the events that it emitted."""

    def __init__(self, app: App, served: Iterable[int] = (), *, grace: timedelta = MINUTE) -> None:
        self.events: list[Event] = []
        self.attempts = LateAttempts()
        targets = directory({number: f"work-{number}" for number in served})
        agenda = app.store.agenda
        self.backlog = Backlog(agenda, app.clock, self.emit, targets, self.attempts, grace)
        self._emit = app.telemetry.emit

    def emit(self, event: Event) -> None:
        self.events.append(event)
        self._emit(event)

    async def look(self) -> BacklogStatus | None:
        self.pause = (await self.backlog.tick()).seconds
        return self.backlog.recovering


async def late_app(cluster: Cluster, many: int) -> tuple[App, Watch]:
    """An app with this many deliveries, a day late."""
    app, barrier = cluster.app(), Barrier()
    barrier.open.set()
    app.handler("work")(barrier.handle)
    app.handler("other")(barrier.handle)
    await app.open()
    await app.deliver_many({"target": "work", "payload": n, "at": START} for n in range(many))
    cluster.clock.advance(DAY)
    numbers = await app.store.targets.numbers(["work"], create=True)
    return app, Watch(app, numbers.values())


@pytest.mark.parametrize(("seconds", "pause"), [(0.1, 0.1 * REST), (20, REPORT_SECONDS)])
async def test_a_count_that_takes_long_is_made_rarely(
    any_cluster: Cluster, seconds: float, pause: float
) -> None:
    app, watch = await late_app(any_cluster, 3)
    count = app.store.agenda.late_work

    class Slow:
        async def late_work(self, *given: Any) -> Any:
            any_cluster.clock.advance(seconds)
            return await count(*given)

    watch.backlog._agenda = Slow()  # type: ignore[assignment]
    await watch.look()
    assert watch.pause == pytest.approx(pause)


async def drain(app: App, many: int, watch: Watch) -> None:
    """Remove deliveries, as if the worker had attempted them, without moving the clock."""
    for each in await app.list(state="pending", limit=many):
        await app.cancel(each.id)
        watch.attempts.begun += 1


async def test_recovery_begins_continues_with_a_rate_and_ends(any_cluster: Cluster) -> None:
    app, watch = await late_app(any_cluster, 90)
    first = await watch.look()
    assert first == BacklogStatus(90, START)
    assert watch.pause == WHILE_RECOVERING.seconds
    any_cluster.clock.advance(10)
    await drain(app, 40, watch)
    assert await watch.look() == BacklogStatus(50, START, 4.0, 12.5)
    any_cluster.clock.advance(10)
    await drain(app, 10, watch)
    assert await watch.look() == BacklogStatus(40, START, 2.5, 16.0)
    any_cluster.clock.advance(5)
    await drain(app, 40, watch)
    assert await watch.look() is None
    assert watch.pause == LOOK_SECONDS
    assert watch.events == [
        RecoveryBegan(deliveries=90, oldest=START),
        RecoveryEnded(deliveries=90, seconds=25.0),
    ]
    assert await watch.look() is None
    assert len(watch.events) == 2


async def test_a_long_recovery_is_reported_twice_a_minute(cluster: Cluster) -> None:
    app, watch = await late_app(cluster, 100)
    await watch.look()
    for _ in range(65):
        cluster.clock.advance(1)
        await drain(app, 1, watch)
        await watch.look()
    assert watch.events == [
        RecoveryBegan(deliveries=100, oldest=START),
        RecoveryGoesOn(deliveries=70, oldest=START, rate=1.0, seconds_left=70.0),
        RecoveryGoesOn(deliveries=40, oldest=START, rate=1.0, seconds_left=40.0),
    ]


async def test_a_growing_backlog_has_no_rate(cluster: Cluster) -> None:
    app, watch = await late_app(cluster, 3)
    await watch.look()
    cluster.clock.advance(30)
    await app.deliver_many([{"target": "work", "payload": None, "at": START}] * 4)
    assert await watch.look() == BacklogStatus(7, START)
    assert watch.events[-1] == RecoveryGoesOn(
        deliveries=7, oldest=START, rate=0.0, seconds_left=None
    )


async def test_recovery_can_begin_a_second_time(cluster: Cluster) -> None:
    app, watch = await late_app(cluster, 5)
    await watch.look()
    await drain(app, 5, watch)
    await watch.look()
    await app.deliver_many([{"target": "work", "payload": None, "at": START}] * 2)
    cluster.clock.advance(10)
    assert await watch.look() == BacklogStatus(2, START)
    assert [type(each) for each in watch.events] == [RecoveryBegan, RecoveryEnded, RecoveryBegan]


@pytest.mark.parametrize("past", [timedelta(0), timedelta(seconds=1)])
async def test_deliveries_late_within_the_grace_are_no_backlog(
    any_cluster: Cluster, past: timedelta
) -> None:
    app, watch = await late_app(any_cluster, 0)
    await app.deliver("work", at=any_cluster.clock.now())
    any_cluster.clock.advance(MINUTE + past)
    assert (await watch.look() is None) is (not past)


async def test_unserved_held_and_future_deliveries_are_not_counted(any_cluster: Cluster) -> None:
    app, watch = await late_app(any_cluster, 4)
    await app.deliver("other", at=START)
    await app.deliver("work", at=any_cluster.clock.now() + DAY)
    barrier = Barrier()
    found = await watch.look()
    assert found is not None
    assert found.count == 4
    held = any_cluster.app(concurrency=4)
    held.handler("work")(barrier.handle)
    process = await any_cluster.start_worker(held)
    assert await process.tick() == 4
    assert await watch.look() is None
    barrier.open.set()
    await process.finish()


async def test_missed_occurrences_count_as_soon_as_they_are_planned(any_cluster: Cluster) -> None:
    app, watch = await late_app(any_cluster, 0)
    await app.schedule("often", cron("*/15 * * * *"), "work", catch_up="all")
    any_cluster.clock.advance(DAY)
    await app.engine().worker.planner.catch_up()
    found = await watch.look()
    assert found is not None
    assert (found.count, found.oldest) == (95, START + DAY + 15 * MINUTE), (
        "the last is only just due"
    )
    await run_until_idle(app)
    assert await watch.look() is None


async def test_recovery_is_logged(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    app, watch = await late_app(cluster, 60)
    with caplog.at_level(logging.INFO, "duly"):
        await watch.look()
        cluster.clock.advance(30)
        await drain(app, 30, watch)
        await watch.look()
        await drain(app, 30, watch)
        await watch.look()
    messages: list[Any] = [record.getMessage() for record in caplog.records]
    assert messages == [
        f"recovering: 60 late deliveries, the oldest due {START}",
        f"recovering: 30 late deliveries left, the oldest due {START}; 1.0 a second, 30.0 s left",
        "recovered: 60 late deliveries drained by this worker in 30.0 s",
    ]
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "WARNING", "INFO"]


async def test_an_engine_watches_the_targets_it_serves_with_its_grace(cluster: Cluster) -> None:
    app, _ = await late_app(cluster, 7)
    engine = app.engine(stepped=True)
    await engine.prepare()
    await engine.worker.backlog.tick()
    assert engine.worker.backlog.recovering == BacklogStatus(7, START)
    assert engine.worker.backlog in engine._loops
    await engine.stop()


async def test_late_webhooks_found_after_the_start_are_reported_at_once(cluster: Cluster) -> None:
    app = cluster.app(concurrency=1)
    await app.open()
    await app.deliver_many(
        {"target": webhook("https://example.org/in"), "payload": n, "at": START} for n in range(3)
    )
    cluster.clock.advance(DAY)
    engine = app.engine(stepped=True)
    await engine.prepare()
    await engine.worker.backlog.tick()
    assert engine.worker.backlog.recovering is None, "the origin is not known yet"
    engine.worker.backlog.wake.clear()
    await engine.worker.next_due()
    assert engine.worker.backlog.wake.is_set()
    await engine.worker.backlog.tick()
    assert engine.worker.backlog.recovering == BacklogStatus(3, START)
    await engine.stop()


class Worker:
    """A worker with one slot and a backlog of five, whose ticks the test runs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.barrier = Barrier()
        self.events: list[Event] = []
        self.app = cluster.app(concurrency=1)
        self.app.handler("work")(self.barrier.handle)

    async def begin(self, many: int = 5) -> None:
        await self.app.open()
        await self.deliver(many)
        self.cluster.clock.advance(DAY)
        self.process = await self.cluster.start_worker(self.app)
        self.backlog = self.process.engine.worker.backlog
        self.backlog._emit = self.events.append

    async def deliver(self, many: int) -> None:
        await self.app.deliver_many([{"target": "work", "payload": None, "at": START}] * many)

    async def look(self) -> None:
        await self.backlog.tick()
        self.cluster.clock.advance(1)

    async def next(self) -> None:
        """Let the running handler end and the next begin."""
        self.barrier.open.set()
        await self.process.finish()
        self.barrier.open.clear()
        await self.process.tick()

    def counts(self) -> list[tuple[type[Event], int]]:
        return [(type(each), each.deliveries) for each in self.events]  # type: ignore[attr-defined]


async def test_a_running_delivery_counts_from_the_beginning(any_cluster: Cluster) -> None:
    worker = Worker(any_cluster)
    await worker.begin()
    assert await worker.process.tick() == 1
    for _ in range(5):
        await worker.look()
        await worker.next()
    await worker.look()
    assert worker.counts() == [(RecoveryBegan, 5), (RecoveryEnded, 5)]


async def test_deliveries_that_become_late_meanwhile_are_counted_too(any_cluster: Cluster) -> None:
    worker = Worker(any_cluster)
    await worker.begin()
    await worker.look()
    await worker.process.tick()
    for round in range(8):
        await worker.look()
        if round == 2:
            await worker.deliver(3)
        await worker.next()
    await worker.look()
    assert worker.counts() == [(RecoveryBegan, 5), (RecoveryEnded, 8)]


async def test_deliveries_taken_or_cancelled_by_others_are_not_counted(
    any_cluster: Cluster,
) -> None:
    worker = Worker(any_cluster)
    await worker.begin()
    await worker.look()
    for each in (await worker.app.list(state="pending"))[:3]:
        await worker.app.cancel(each.id)
    await worker.process.tick()
    for _ in range(2):
        await worker.look()
        await worker.next()
    await worker.look()
    assert worker.counts() == [(RecoveryBegan, 5), (RecoveryEnded, 2)]


async def test_late_retries_are_drained_as_well(any_cluster: Cluster) -> None:
    worker = Worker(any_cluster)
    failing = True

    @worker.app.handler("fails", retry=delays(1, 1))
    async def fails(delivery: Delivery[None]) -> None:
        if failing:
            raise RuntimeError("not yet")

    await worker.begin(0)
    await worker.app.deliver_many([("fails", None)] * 3)
    while await worker.process.engine.worker.step():
        pass
    failing = False
    any_cluster.clock.advance(DAY)
    await worker.look()
    while await worker.process.engine.worker.step():
        pass
    await worker.look()
    assert worker.counts() == [(RecoveryBegan, 3), (RecoveryEnded, 3)]


async def test_a_claim_during_the_look_is_not_counted_twice(any_cluster: Cluster) -> None:
    worker = Worker(any_cluster)
    await worker.begin()
    agenda = worker.process.engine.worker.store.agenda
    original = agenda.late_work
    calls = 0

    async def claim_meanwhile(*arguments: Any) -> Any:
        nonlocal calls
        found = await original(*arguments)
        if not calls:
            await worker.process.tick()
        calls += 1
        return found

    agenda.late_work = claim_meanwhile  # type: ignore[method-assign]
    await worker.look()
    assert calls == 2
    for _ in range(5):
        await worker.next()
        await worker.look()
    assert worker.counts() == [(RecoveryBegan, 5), (RecoveryEnded, 5)]


async def test_a_worker_with_one_slot_counts_right_in_its_own_loops(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(database_url, environment={}, concurrency=1)
    entered, go = asyncio.Semaphore(0), asyncio.Semaphore(0)
    events: list[Event] = []
    changed = asyncio.Event()
    emit = app.telemetry.emit

    def record(event: Event) -> None:
        emit(event)
        events.append(event)
        changed.set()

    app.telemetry.emit = record  # type: ignore[method-assign]

    @app.handler("work")
    async def work(delivery: Delivery[None]) -> None:
        entered.release()
        await go.acquire()

    async def found(kind: type[Event]) -> Any:
        async with asyncio.timeout(60):
            while not (ones := [each for each in events if type(each) is kind]):
                changed.clear()
                await changed.wait()
        return ones[0]

    async with app:
        long_ago = app.clock.now() - DAY
        await app.deliver_many([{"target": "work", "payload": None, "at": long_ago}] * 5)
        running = asyncio.create_task(app.run(signals=False))
        assert (await found(RecoveryBegan)).deliveries == 5
        for _ in range(5):
            await entered.acquire()
            go.release()
        assert (await found(RecoveryEnded)).deliveries == 5
        app.stop()
        await running
