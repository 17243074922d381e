"""A clock that jumps an hour forward and back while deliveries that expire in half an hour run."""

import random
import time
from datetime import UTC, datetime, timedelta

import pytest

import duly
from duly import App, Delivery, system
from duly.engine.store_clock import StoreClock
from duly.ports import ClaimRequest
from duly.stores.sqlite.clock import BELIEVED_AFTER_SECONDS, Steady
from duly.system import SystemClock
from duly.testing import VirtualClock
from tests.engine.cluster import Barrier, Cluster, WorkerProcess, states

HOUR, HALF_AN_HOUR = timedelta(hours=1), timedelta(minutes=30)
A_WHILE = timedelta(minutes=5)


class JumpingClock(SystemClock):
    """The system clock, with every second reading an hour off."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.is_right = True

    def now(self) -> datetime:
        """The current time, or an hour off."""
        steps = (timedelta(),) if self.is_right else (timedelta(), timedelta(), HOUR, -HOUR)
        return super().now() + self._random.choice(steps)


@pytest.mark.requirement("D7", "D11")
@pytest.mark.parametrize("seed", range(3))
async def test_a_clock_step_expires_no_delivery_that_has_time_left(
    database_url: str, seed: int
) -> None:
    clock, began = JumpingClock(seed), datetime.now(UTC)
    app = App(database_url, clock=clock, environment={}, concurrency=20)

    @app.handler("work", retry=duly.delays(0, 0))
    async def work(delivery: Delivery[int]) -> None:
        if delivery.attempt == 1 and not delivery.payload % 5:
            raise duly.Retry(after=0)

    async with app:
        engine = app.engine(stepped=True)
        await engine.prepare()
        clock.is_right = False
        await deliver_many(app, began + HALF_AN_HOUR, many=200)
        while await engine.worker.step() or await app.list(state="pending"):
            pass
        clock.is_right = True
        assert await states(app) == {"completed": 200}
        for each in await app.list(limit=1000):
            assert each.started_at is not None
            assert each.finished_at is not None
            assert began - A_WHILE < each.started_at < began + A_WHILE
            assert began - A_WHILE < each.finished_at < began + A_WHILE
            for attempt in await app.deliveries.history(each.id):
                assert began - A_WHILE < attempt.finished_at < began + A_WHILE


async def deliver_many(app: App, expires_at: datetime, many: int) -> None:
    """Some alone, some in streams, where those behind the head start later."""
    await app.deliver_many(
        {
            "target": "work",
            "payload": number,
            "expires_at": expires_at,
            "stream": f"s {number % 7}" if number % 2 else None,
        }
        for number in range(many)
    )


@pytest.mark.requirement("D7")
async def test_a_delivery_that_expires_behind_its_head_is_not_attempted(
    any_cluster: Cluster,
) -> None:
    app, done = any_cluster.app(), []

    @app.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        done.append(delivery.payload)
        if delivery.payload == 0:
            any_cluster.clock.advance(60)

    process = await any_cluster.start_worker(app)
    for number, seconds in enumerate((600, 30, 600)):
        expires_at = any_cluster.clock.now() + timedelta(seconds=seconds)
        await app.deliver("work", number, stream="s", expires_at=expires_at)
    while await process.engine.worker.step():
        pass
    assert done == [0, 2]
    assert await states(app) == {"completed": 2, "cancelled": 1}


@pytest.mark.requirement("D7")
async def test_a_claim_returns_the_remaining_time_by_the_clock_of_the_store(
    any_cluster: Cluster,
) -> None:
    app, barrier = any_cluster.app(), Barrier()
    app.handler("work")(barrier.handle)
    process = await any_cluster.start_worker(app)
    soon = any_cluster.clock.now() + timedelta(seconds=90)
    await app.deliver("work", "alone", expires_at=soon)
    await app.deliver("work", "for ever")
    await app.deliver("work", "in a stream", stream="s", expires_at=soon)
    any_cluster.clock.advance(30)
    found = await claimed(process)
    assert found == {'"alone"': 60.0, '"for ever"': None, '"in a stream"': 60.0}


async def claimed(process: WorkerProcess) -> dict[str, float | None]:
    agenda, worker = process.app.store.agenda, process.engine.worker.membership.worker
    requests = [
        ClaimRequest(each.priority, each.target, each.due_at, 9) for each in await agenda.survey()
    ]
    rows = await agenda.claim(worker << 32, 9, requests)
    return {each.payload.decode(): each.expires_in for each in rows}


class WallClock(VirtualClock):
    """A wall clock that the test moves; the store has its own."""

    virtual = False


def test_the_time_of_the_store_does_not_follow_the_wall_clock() -> None:
    clock = WallClock()
    known, noon = StoreClock(clock), datetime(2026, 6, 1, 12, tzinfo=UTC)
    known.observe(noon, clock.monotonic())
    clock.advance(5)
    clock.step(3600)
    assert known.now() == noon + timedelta(seconds=5)
    known.observe(noon + timedelta(seconds=4.95), clock.monotonic())
    assert known.now() == noon + timedelta(seconds=5)
    known.observe(noon + timedelta(seconds=6), clock.monotonic())
    assert known.now() == noon + timedelta(seconds=6)
    known.observe(noon - HOUR, clock.monotonic())
    assert known.now() == noon - HOUR, "the store's clock was stepped"


@pytest.mark.requirement("D11")
def test_a_slow_answer_does_not_set_the_time_back() -> None:
    clock = WallClock()
    known, noon = StoreClock(clock), datetime(2026, 6, 1, 12, tzinfo=UTC)
    known.observe(noon, clock.monotonic())
    asked_at = clock.monotonic()
    clock.advance(4)
    known.observe(noon, asked_at)
    assert known.now() == noon + timedelta(seconds=4)
    known.observe(noon - HOUR, asked_at)
    assert known.now() == noon - HOUR + timedelta(seconds=4), "the store's clock was stepped"


def test_a_store_without_a_clock_accepts_a_step_once_it_has_lasted() -> None:
    clock = WallClock()
    steady, began = Steady(clock), clock.now()
    clock.advance(3)
    clock.step(3600)
    assert steady.now() == began + timedelta(seconds=3)
    clock.step(-3600)
    assert steady.now() == began + timedelta(seconds=3)
    clock.step(-3600)
    clock.advance(BELIEVED_AFTER_SECONDS - 0.001)
    assert steady.now() > began
    clock.advance(0.001)
    assert steady.now() == clock.now() < began


def test_a_store_without_a_clock_follows_small_corrections_at_once() -> None:
    clock = WallClock()
    steady = Steady(clock)
    for _ in range(20):
        clock.advance(1)
        clock.step(-1.5)
        assert steady.now() == clock.now()


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has two such clocks")
def test_the_clock_of_leases_continues_while_the_machine_sleeps() -> None:
    assert system.SLEEPLESS == time.CLOCK_BOOTTIME


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("how", ["deliver", "deliver_many"])
async def test_a_delivery_due_now_wakes_workers_even_if_the_clock_is_behind(
    postgres_url: str, how: str
) -> None:
    clock = WallClock(datetime.now(UTC) - HOUR)
    async with App(postgres_url, clock=clock, environment={}) as app:
        app.expect("work")
        hints: list[None] = []
        app.store.wakeups.hint = lambda: hints.append(None)  # type: ignore[method-assign]
        if how == "deliver":
            await app.deliver("work")
        else:
            await app.deliver_many([("work", None)])
        assert hints
        hints.clear()
        await app.deliver("work", after=3600)
        await app.deliver("work", at=clock.now() + 2 * HOUR)
        assert not hints
