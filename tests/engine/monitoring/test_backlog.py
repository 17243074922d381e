"""While late work is drained the instance says so, how fast, and for how long yet."""

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
    WHILE_RECOVERING,
    Backlog,
    BacklogStatus,
    LateAttempts,
)
from duly.testing import run_until_idle
from tests.engine.conftest import START
from tests.engine.house import Gate, House, directory

pytestmark = pytest.mark.requirement("D12")

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


class Watch:
    """A backlog whose ticks the test counts out, and what it told."""

    def __init__(self, app: App, served: Iterable[int] = (), *, grace: timedelta = MINUTE) -> None:
        self.told: list[Event] = []
        self.attempts = LateAttempts()
        targets = directory({number: f"work-{number}" for number in served})
        agenda = app.store.agenda
        self.backlog = Backlog(agenda, app.clock, self.emit, targets, self.attempts, grace)
        self._emit = app.telemetry.emit

    def emit(self, event: Event) -> None:
        self.told.append(event)
        self._emit(event)

    async def look(self) -> BacklogStatus | None:
        self.pause = (await self.backlog.tick()).seconds
        return self.backlog.recovering


async def late_app(house: House, many: int) -> tuple[App, Watch]:
    """An app with so much work, a day late."""
    app, gate = house.app(), Gate()
    gate.open.set()
    app.handler("work")(gate.handle)
    app.handler("other")(gate.handle)
    await app.open()
    await app.deliver_many({"target": "work", "payload": n, "at": START} for n in range(many))
    house.clock.advance(DAY)
    numbers = await app.store.targets.numbers(["work"], create=True)
    return app, Watch(app, numbers.values())


async def drained(app: App, many: int, watch: Watch) -> None:
    """Let so many deliveries go, without the clock moving, as if the worker had attempted them."""
    for each in await app.list(state="pending", limit=many):
        await app.cancel(each.id)
        watch.attempts.begun += 1


async def test_late_work_begins_goes_on_with_its_rate_and_ends(any_house: House) -> None:
    app, watch = await late_app(any_house, 90)
    first = await watch.look()
    assert first == BacklogStatus(90, START)
    assert watch.pause == WHILE_RECOVERING.seconds
    any_house.clock.advance(10)
    await drained(app, 40, watch)
    assert await watch.look() == BacklogStatus(50, START, 4.0, 12.5)
    any_house.clock.advance(10)
    await drained(app, 10, watch)
    assert await watch.look() == BacklogStatus(40, START, 2.5, 16.0)
    any_house.clock.advance(5)
    await drained(app, 40, watch)
    assert await watch.look() is None
    assert watch.pause == LOOK_SECONDS
    assert watch.told == [
        RecoveryBegan(deliveries=90, oldest=START),
        RecoveryEnded(deliveries=90, seconds=25.0),
    ]
    assert await watch.look() is None
    assert len(watch.told) == 2


async def test_while_it_takes_long_it_is_told_twice_a_minute(house: House) -> None:
    app, watch = await late_app(house, 100)
    await watch.look()
    for _ in range(65):
        house.clock.advance(1)
        await drained(app, 1, watch)
        await watch.look()
    assert watch.told == [
        RecoveryBegan(deliveries=100, oldest=START),
        RecoveryGoesOn(deliveries=70, oldest=START, rate=1.0, seconds_left=70.0),
        RecoveryGoesOn(deliveries=40, oldest=START, rate=1.0, seconds_left=40.0),
    ]


async def test_a_backlog_that_grows_has_no_rate_to_tell(house: House) -> None:
    app, watch = await late_app(house, 3)
    await watch.look()
    house.clock.advance(30)
    await app.deliver_many([{"target": "work", "payload": None, "at": START}] * 4)
    assert await watch.look() == BacklogStatus(7, START)
    assert watch.told[-1] == RecoveryGoesOn(deliveries=7, oldest=START, rate=0.0, seconds_left=None)


async def test_it_begins_anew_after_it_ended(house: House) -> None:
    app, watch = await late_app(house, 5)
    await watch.look()
    await drained(app, 5, watch)
    await watch.look()
    await app.deliver_many([{"target": "work", "payload": None, "at": START}] * 2)
    house.clock.advance(10)
    assert await watch.look() == BacklogStatus(2, START)
    assert [type(each) for each in watch.told] == [RecoveryBegan, RecoveryEnded, RecoveryBegan]


@pytest.mark.parametrize("past", [timedelta(0), timedelta(seconds=1)])
async def test_what_is_late_within_the_grace_is_no_backlog(
    any_house: House, past: timedelta
) -> None:
    app, watch = await late_app(any_house, 0)
    await app.deliver("work", at=any_house.clock.now())
    any_house.clock.advance(MINUTE + past)
    assert (await watch.look() is None) is (not past)


async def test_what_others_serve_or_is_held_or_lies_ahead_is_not_counted(any_house: House) -> None:
    app, watch = await late_app(any_house, 4)
    await app.deliver("other", at=START)
    await app.deliver("work", at=any_house.clock.now() + DAY)
    gate = Gate()
    found = await watch.look()
    assert found is not None
    assert found.count == 4
    held = any_house.app(concurrency=4)
    held.handler("work")(gate.handle)
    life = await any_house.born(held)
    assert await life.tick() == 4
    assert await watch.look() is None
    gate.open.set()
    await life.finish()


async def test_what_a_schedule_missed_counts_as_soon_as_it_is_planned(any_house: House) -> None:
    app, watch = await late_app(any_house, 0)
    await app.schedule("often", cron("*/15 * * * *"), "work", catch_up="all")
    any_house.clock.advance(DAY)
    await app.engine().worker.planner.catch_up()
    found = await watch.look()
    assert found is not None
    assert (found.count, found.oldest) == (95, START + DAY + 15 * MINUTE), (
        "the last is only just due"
    )
    await run_until_idle(app)
    assert await watch.look() is None


async def test_the_log_says_it_in_words(house: House, caplog: pytest.LogCaptureFixture) -> None:
    app, watch = await late_app(house, 60)
    with caplog.at_level(logging.INFO, "duly"):
        await watch.look()
        house.clock.advance(30)
        await drained(app, 30, watch)
        await watch.look()
        await drained(app, 30, watch)
        await watch.look()
    words: list[Any] = [record.getMessage() for record in caplog.records]
    assert words == [
        f"recovering: 60 late deliveries, the oldest due {START}",
        f"recovering: 30 late deliveries left, the oldest due {START}; 1.0 a second, 30.0 s left",
        "recovered: 60 late deliveries drained by this worker in 30.0 s",
    ]
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "WARNING", "INFO"]


async def test_an_engine_watches_what_it_serves_by_its_own_grace(house: House) -> None:
    app, _ = await late_app(house, 7)
    engine = app.engine(stepped=True)
    await engine.prepare()
    await engine.worker.backlog.tick()
    assert engine.worker.backlog.recovering == BacklogStatus(7, START)
    assert engine.worker.backlog in engine._loops
    await engine.stop()


async def test_late_webhooks_that_are_met_after_the_start_are_told_of_at_once(house: House) -> None:
    app = house.app(concurrency=1)
    await app.open()
    await app.deliver_many(
        {"target": webhook("https://example.org/in"), "payload": n, "at": START} for n in range(3)
    )
    house.clock.advance(DAY)
    engine = app.engine(stepped=True)
    await engine.prepare()
    await engine.worker.backlog.tick()
    assert engine.worker.backlog.recovering is None, "nobody told of that origin yet"
    engine.worker.backlog.wake.clear()
    await engine.worker.next_due()
    assert engine.worker.backlog.wake.is_set()
    await engine.worker.backlog.tick()
    assert engine.worker.backlog.recovering == BacklogStatus(3, START)
    await engine.stop()


class Worker:
    """A worker with one slot and a backlog of five, whose looks the test counts out."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.gate = Gate()
        self.told: list[Event] = []
        self.app = house.app(concurrency=1)
        self.app.handler("work")(self.gate.handle)

    async def begin(self, many: int = 5) -> None:
        await self.app.open()
        await self.deliver(many)
        self.house.clock.advance(DAY)
        self.life = await self.house.born(self.app)
        self.backlog = self.life.engine.worker.backlog
        self.backlog._emit = self.told.append

    async def deliver(self, many: int) -> None:
        await self.app.deliver_many([{"target": "work", "payload": None, "at": START}] * many)

    async def look(self) -> None:
        await self.backlog.tick()
        self.house.clock.advance(1)

    async def next(self) -> None:
        """Let the one that runs end and the next begin."""
        self.gate.open.set()
        await self.life.finish()
        self.gate.open.clear()
        await self.life.tick()

    def counts(self) -> list[tuple[type[Event], int]]:
        return [(type(each), each.deliveries) for each in self.told]  # type: ignore[attr-defined]


async def test_one_that_is_under_way_counts_from_the_beginning(any_house: House) -> None:
    worker = Worker(any_house)
    await worker.begin()
    assert await worker.life.tick() == 1
    for _ in range(5):
        await worker.look()
        await worker.next()
    await worker.look()
    assert worker.counts() == [(RecoveryBegan, 5), (RecoveryEnded, 5)]


async def test_what_comes_late_meanwhile_is_drained_too(any_house: House) -> None:
    worker = Worker(any_house)
    await worker.begin()
    await worker.look()
    await worker.life.tick()
    for round in range(8):
        await worker.look()
        if round == 2:
            await worker.deliver(3)
        await worker.next()
    await worker.look()
    assert worker.counts() == [(RecoveryBegan, 5), (RecoveryEnded, 8)]


async def test_what_others_took_or_cancelled_was_not_drained_here(any_house: House) -> None:
    worker = Worker(any_house)
    await worker.begin()
    await worker.look()
    for each in (await worker.app.list(state="pending"))[:3]:
        await worker.app.cancel(each.id)
    await worker.life.tick()
    for _ in range(2):
        await worker.look()
        await worker.next()
    await worker.look()
    assert worker.counts() == [(RecoveryBegan, 5), (RecoveryEnded, 2)]


async def test_late_retries_are_drained_as_well(any_house: House) -> None:
    worker = Worker(any_house)
    failing = True

    @worker.app.handler("fails", retry=delays(1, 1))
    async def fails(delivery: Delivery[None]) -> None:
        if failing:
            raise RuntimeError("not yet")

    await worker.begin(0)
    await worker.app.deliver_many([("fails", None)] * 3)
    while await worker.life.engine.worker.step():
        pass
    failing = False
    any_house.clock.advance(DAY)
    await worker.look()
    while await worker.life.engine.worker.step():
        pass
    await worker.look()
    assert worker.counts() == [(RecoveryBegan, 3), (RecoveryEnded, 3)]


async def test_a_claim_during_the_look_is_not_counted_twice(any_house: House) -> None:
    worker = Worker(any_house)
    await worker.begin()
    agenda = worker.life.engine.worker.store.agenda
    look = agenda.late_work
    looks = 0

    async def overtaken(*asked: Any) -> Any:
        nonlocal looks
        found = await look(*asked)
        if not looks:
            await worker.life.tick()
        looks += 1
        return found

    agenda.late_work = overtaken  # type: ignore[method-assign]
    await worker.look()
    assert looks == 2
    for _ in range(5):
        await worker.next()
        await worker.look()
    assert worker.counts() == [(RecoveryBegan, 5), (RecoveryEnded, 5)]


async def test_a_worker_with_one_slot_counts_right_in_its_own_loops(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(database_url, environment={}, concurrency=1)
    entered, go = asyncio.Semaphore(0), asyncio.Semaphore(0)
    told: list[Event] = []
    more = asyncio.Event()
    emit = app.telemetry.emit

    def noted(event: Event) -> None:
        emit(event)
        told.append(event)
        more.set()

    app.telemetry.emit = noted  # type: ignore[method-assign]

    @app.handler("work")
    async def work(delivery: Delivery[None]) -> None:
        entered.release()
        await go.acquire()

    async def found(kind: type[Event]) -> Any:
        async with asyncio.timeout(60):
            while not (ones := [each for each in told if type(each) is kind]):
                more.clear()
                await more.wait()
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
