"""Schedules with `overlap="queue"`: one occurrence at a time, in order, and no waiting between."""

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
from duly.engine.planner import Planner
from duly.testing import VirtualClock, run_until_idle
from tests.engine.conftest import START
from tests.engine.house import Gate, House, Life
from tests.stores.store_probe import StoreProbe

SECONDS = every("1s")
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
LINE = stream_of_schedule("often")


class Diary:
    """What the handlers of any number of apps did, and whether two were ever at it at once."""

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


async def declared(app: App, target: str = "work", **options: Any) -> None:
    await app.schedule("often", SECONDS, target, overlap="queue", catch_up="all", **options)


async def planned(app: App) -> None:
    await Planner(app.store, app.clock, app.chance, lambda _event: None, poll=1).catch_up()


async def missed(house: House, diary: Diary, many: int, **options: Any) -> App:
    """A schedule of which so many occurrences are due, each in a lane of its own."""
    app = house.app()
    diary.handle(app)
    await app.open()
    await declared(app, **options)
    house.clock.advance(many * SECOND)
    await planned(app)
    return app


async def stands_at(gate: Gate, life: Life) -> None:
    async with asyncio.timeout(10):
        while life.engine.running > gate.inside:
            await asyncio.tasks.sleep(0)
    await life.engine.worker.settler.flush()


@pytest.mark.requirement("C4")
async def test_after_one_slow_run_the_backlog_is_worked_off_at_once_and_in_order(
    any_house: House,
) -> None:
    app, gate = any_house.app(), Gate()
    app.handler("gate")(gate.handle)
    life = await any_house.born(app)
    await declared(app, "gate")
    for _ in range(15):
        any_house.clock.advance(SECOND)
        life.engine.worker.membership.lease.renew(any_house.clock.monotonic())
        await life.engine.worker.planner.catch_up()
        await life.tick()
        await stands_at(gate, life)
    assert len(gate.entered) == 1
    stream = await app.streams.get(LINE)
    assert (stream.state, stream.waiting, stream.on_failure) == ("running", 14, "queue")
    gate.open.set()
    await life.finish()
    await run_until_idle(app)
    assert any_house.clock.now() == START + 15 * SECOND
    assert [each["scheduled_for"][11:19] for each in gate.entered] == seconds(*range(1, 16))
    assert gate.most_inside == 1
    assert (await app.streams.get(LINE)).state == "idle"


@pytest.mark.requirement("C4", "D4")
async def test_what_is_due_when_it_starts_runs_in_order_whoever_joins_first(
    any_house: House,
) -> None:
    """So was every occurrence before lines were used: what is pending since then is worked off."""
    diary = Diary()
    app = await missed(any_house, diary, 200)
    await run_until_idle(app)
    assert (diary.done, diary.most_inside) == (seconds(*range(1, 201)), 1)
    attempts = {each.attempt for each in await app.list(state=State.COMPLETED, limit=200)}
    assert attempts == {1}


@pytest.fixture
async def shared_house(postgres_url: str, clock: VirtualClock) -> AsyncIterator[House]:
    """Where two may work at once."""
    found = House(postgres_url, clock)
    yield found
    await found.close()


@pytest.mark.requirement("C4", "D6")
async def test_two_workers_keep_the_order_and_never_run_two_at_a_time(
    shared_house: House,
) -> None:
    diary = Diary()
    first = await missed(shared_house, diary, 300)
    second = shared_house.app()
    diary.handle(second)
    await second.open()
    lives = [await shared_house.born(each) for each in (first, second)]
    async with asyncio.timeout(60):
        while len(diary.done) < 300:
            await asyncio.gather(*(each.tick() for each in lives))
            await asyncio.gather(*(each.finish() for each in lives))
            shared_house.clock.advance(0.25)
    assert (diary.done[:300], diary.most_inside) == (seconds(*range(1, 301)), 1)


@pytest.mark.requirement("C4", "D4")
async def test_a_crash_in_between_loses_no_place_in_the_line(any_house: House) -> None:
    diary = Diary()
    app = await missed(any_house, diary, 20)
    diary.hanging = seconds(7)[0]
    life = await any_house.born(app)
    async with asyncio.timeout(10):
        while not diary.hangs.is_set():
            await life.tick()
            await life.engine.worker.settler.flush()
            any_house.clock.advance(0.05)
    await life.kill()
    assert diary.done == seconds(*range(1, 7))
    diary.hanging = None
    again = any_house.app()
    diary.handle(again)
    await again.open()
    any_house.clock.advance(MINUTE)
    await run_until_idle(again)
    assert len(diary.done) >= 80
    assert diary.done == seconds(*range(1, len(diary.done) + 1))
    assert diary.most_inside == 1


@pytest.mark.requirement("C4", "D10")
async def test_a_dead_occurrence_does_not_hold_up_those_behind_it(any_house: House) -> None:
    diary = Diary()
    app = await missed(any_house, diary, 5)
    diary.failing = set(seconds(2))
    await run_until_idle(app)
    assert diary.done == seconds(1, 2, 3, 4, 5)
    (dead,) = await app.list(state=State.DEAD)
    assert (dead.stream, (await app.streams.get(LINE)).state) == (LINE, "idle")
    diary.failing = set()
    await app.retry(dead.id)
    await run_until_idle(app)
    assert diary.done[-1:] == seconds(2)


@pytest.mark.requirement("C4")
async def test_one_that_runs_elsewhere_is_waited_for(any_house: House) -> None:
    """As a worker did that knew of no lines, or by another overlap: in a lane of its own."""
    diary = Diary()
    app = await missed(any_house, diary, 3)
    life = await any_house.born(app)
    probe = StoreProbe(app.store, any_house.clock)  # type: ignore[arg-type]
    first = sorted(await app.list(), key=lambda each: each.due_at)[0]
    number = "lane" if app.store.single_owner else "lane::text"
    lanes = await probe.sql(f"select {number} as lane from duly.agenda order by due_at limit 1")
    token = life.engine.worker.membership.worker * 2**32 + 77
    held = f"update duly.agenda set token = {token} where {number} = '{lanes[0]['lane']}'"
    await probe.sql(held)
    for _ in range(3):
        await life.tick()
        await life.finish()
        any_house.clock.advance(SECOND)
    assert diary.done == []
    assert {each.attempt for each in await app.list()} == {0}
    await probe.sql("update duly.agenda set token = null where token is not null")
    await run_until_idle(app)
    assert diary.done[:3] == seconds(1, 2, 3)
    assert (await app.get(first.id)).state == State.COMPLETED


@pytest.mark.requirement("C4")
async def test_what_is_triggered_and_made_up_takes_its_turn(any_house: House) -> None:
    diary = Diary()
    app = await missed(any_house, diary, 3)
    any_house.clock.advance(SECOND)
    await app.schedules.trigger("often")
    past = START - 10 * SECOND
    assert sum([each async for each in app.schedules.backfill("often", past, START)]) == 11
    await run_until_idle(app)
    assert diary.done[:3] == seconds(1, 2, 3)
    assert [each for each in diary.done if each <= seconds(0)[0]] == seconds(*range(-10, 1))
    assert (len(diary.done), diary.most_inside) == (3 + 1 + 1 + 11, 1)


@pytest.mark.requirement("C4")
@pytest.mark.parametrize(("overlap", "ran"), [("allow", True), ("skip", False)])
async def test_another_overlap_leaves_those_in_line_there(
    any_house: House, overlap: str, ran: bool
) -> None:
    app, gate, other = any_house.app(), Gate(), Gate()
    app.handler("gate")(gate.handle)
    app.handler("other")(other.handle)
    other.open.set()
    life = await any_house.born(app)
    await declared(app, "gate")
    any_house.clock.advance(3 * SECOND)
    await life.engine.worker.planner.catch_up()
    await life.tick()
    await stands_at(gate, life)
    await life.tick()
    await stands_at(gate, life)
    await app.schedule("often", every("1h"), "other", overlap=overlap)
    any_house.clock.advance(HOUR)
    life.engine.worker.membership.lease.renew(any_house.clock.monotonic())
    await life.engine.worker.planner.catch_up()
    await life.tick()
    await stands_at(gate, life)
    assert (len(other.entered) == 1) is ran
    gate.open.set()
    await life.finish()
    await run_until_idle(app)
    assert [each["scheduled_for"][11:19] for each in gate.entered] == seconds(1, 2, 3)


@pytest.mark.requirement("C4", "C10")
async def test_a_schedule_that_is_removed_takes_its_line_along(any_house: House) -> None:
    app, gate = any_house.app(), Gate()
    app.handler("gate")(gate.handle)
    life = await any_house.born(app)
    await declared(app, "gate")
    any_house.clock.advance(60 * SECOND)
    life.engine.worker.membership.lease.renew(any_house.clock.monotonic())
    await life.engine.worker.planner.catch_up()
    for _ in range(3):
        await life.tick()
        await stands_at(gate, life)
    assert (await app.streams.get(LINE)).waiting == 59
    await app.schedules.remove("often")
    gate.open.set()
    await life.finish()
    await run_until_idle(app)
    # A run that a worker has claimed goes on, as in any stream.
    assert 1 <= len(gate.entered) <= 32
    states = {each.state for each in await app.list(limit=100)}
    assert states == {State.COMPLETED, State.CANCELLED}
    assert (await app.streams.get(LINE)).state == "idle"


@pytest.mark.requirement("C4", "C10")
async def test_a_schedule_that_is_removed_leaves_alone_what_runs_in_its_stream(
    any_house: House,
) -> None:
    app, gate = any_house.app(), Gate()
    app.handler("gate")(gate.handle)
    life = await any_house.born(app)
    await app.schedule("often", SECONDS, "gate", catch_up="all", stream="team")
    any_house.clock.advance(SECOND)
    await life.engine.worker.planner.catch_up()
    for _ in range(3):
        await life.tick()
        await stands_at(gate, life)
    any_house.clock.advance(5 * SECOND)
    await life.engine.worker.planner.catch_up()
    for _ in range(3):
        await life.tick()
        await stands_at(gate, life)
    await app.deliver("gate", "another", stream="team")
    assert (await app.streams.get("team")).waiting == 6
    await app.streams.pause("team")
    await app.schedules.remove("often")
    gate.open.set()
    await life.finish()
    await app.streams.resume("team")
    await run_until_idle(app)
    states = sorted(each.state for each in await app.list(limit=100))
    assert states.count(State.CANCELLED) + len(gate.entered) == 8
    assert states.count(State.COMPLETED) == len(gate.entered)
    assert gate.entered[-1] == "another"


@pytest.mark.requirement("C4", "C10")
async def test_a_free_line_is_cancelled_whole(any_house: House) -> None:
    diary = Diary()
    app = await missed(any_house, diary, 150)
    await app.schedule("other", every("1h"), "work", stream="other")
    life = await any_house.born(app)
    await life.engine.worker.dispatcher.tick()
    await life.kill()
    again = any_house.app()
    await again.open()
    await again.schedules.remove("often")
    await run_until_idle(again)
    assert {each.state for each in await again.list(schedule="often")} <= {State.CANCELLED}


@pytest.mark.requirement("C4")
async def test_the_stream_of_a_schedule_is_nobody_elses(any_house: House) -> None:
    app = any_house.app()
    app.handler("work")(Gate().handle)
    async with app:
        with pytest.raises(InvalidInput, match="belong to schedules"):
            await app.deliver("work", stream=LINE)
        with pytest.raises(InvalidInput, match="belong to schedules"):
            await app.schedule("mine", SECONDS, "work", stream=LINE)
        with pytest.raises(InvalidInput, match="belongs to a schedule"):
            await app.streams.configure(LINE, on_failure="block")
