"""A suspect runs alone, on one worker that stands aside for it, while everyone else goes on."""

import asyncio
from typing import Any

import pytest

import duly
from duly import Delivery
from duly.engine.dispatch.isolation import (
    ASK_AGAIN_SECONDS,
    FIRST_WAIT_SECONDS,
    LONGEST_WAIT_SECONDS,
    PATIENCE_SECONDS,
    Isolation,
)
from duly.testing import VirtualClock
from tests.engine.house import House, Life
from tests.stores.store_probe import StoreProbe


class Stage:
    """Three kinds of handlers: one that is over at once, one that lasts, and the suspect's."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.done: list[str] = []
        self.long, self.suspect = asyncio.Event(), asyncio.Event()
        self.running: list[tuple[int, str]] = []
        self.beside_a_suspect: list[str] = []

    async def worker(self, **settings: Any) -> Life:
        """A worker of its own."""
        app = self.house.app(lease=30, **settings)
        number = len(self.house._apps)
        waits = {"quick": None, "long": self.long, "suspect": self.suspect}
        for target, event in waits.items():
            app.handler(target, retry=duly.delays(*[0] * 9))(self.handler(number, target, event))
        return await self.house.born(app)

    def handler(self, number: int, target: str, event: asyncio.Event | None) -> Any:
        async def handle(delivery: Delivery[Any]) -> None:
            self.running.append((number, target))
            self.note_neighbours(number)
            try:
                if event is not None:
                    await event.wait()
            finally:
                self.running.remove((number, target))
            self.done.append(target)

        return handle

    def note_neighbours(self, number: int) -> None:
        here = [target for where, target in self.running if where == number]
        if "suspect" in here and len(here) > 1:
            self.beside_a_suspect += here


async def suspected(life: Life, many: int = 1) -> list[str]:
    """Deliveries with which two workers died."""
    probe = StoreProbe(life.app.store, life.app.clock)  # type: ignore[arg-type]
    accepted = [await life.app.deliver("suspect") for _ in range(many)]
    for each in accepted:
        place = probe.agenda_id(each.id)
        await probe.sql(
            f"update duly.agenda set crashes = 2, priority = 0 where delivery = {place}"
        )
    return [each.id for each in accepted]


async def work(life: Life) -> None:
    """Claim, run and settle whatever does not wait."""
    await life.tick()
    await life.engine.worker.settler.flush()
    await life.tick()
    await life.engine.worker.settler.flush()


@pytest.mark.requirement("F3")
async def test_a_due_suspect_holds_up_nobody_while_something_long_runs(any_house: House) -> None:
    stage = Stage(any_house)
    life = await stage.worker(concurrency=20)
    await life.app.deliver("long")
    await work(life)
    await suspected(life)
    await life.app.deliver_many([("quick", None)] * 50)
    for _ in range(10):
        await work(life)
    assert stage.done == ["quick"] * 50
    stage.suspect.set()
    stage.long.set()
    while len(stage.done) < 52:
        await work(life)
    assert stage.done[50:] == ["long", "suspect"]


@pytest.mark.requirement("F3")
async def test_a_busy_worker_stands_aside_in_the_end_and_runs_it_alone(any_house: House) -> None:
    stage = Stage(any_house)
    life = await stage.worker(concurrency=20)
    await life.app.deliver("long")
    await work(life)
    await suspected(life)
    await work(life)
    any_house.clock.advance(PATIENCE_SECONDS)
    await life.app.deliver("quick")
    await work(life)
    assert stage.done == [], "it claims nothing more, and waits for what runs"
    stage.long.set()
    await life.breathe()
    await work(life)
    assert [target for _, target in stage.running] == ["suspect"]
    stage.suspect.set()
    await life.breathe()
    await work(life)
    assert stage.done == ["long", "suspect", "quick"]
    assert stage.beside_a_suspect == []


@pytest.mark.requirement("F3")
async def test_a_worker_waits_for_its_own_work_so_long_and_then_goes_on(any_house: House) -> None:
    stage = Stage(any_house)
    life = await stage.worker(concurrency=20)
    await life.app.deliver("long")
    await work(life)
    await suspected(life)
    await work(life)
    stood, waited = 0, 0.0
    for second in range(600):
        any_house.clock.advance(1)
        await life.app.store.workers.beat(life.engine.worker.membership.worker)
        life.engine.worker.membership.lease.renew(any_house.clock.monotonic())
        await life.app.deliver("quick", second)
        before = len(stage.done)
        await work(life)
        stood += len(stage.done) == before
        waited = waited + 1 if len(stage.done) == before else 0
        assert waited <= LONGEST_WAIT_SECONDS + 1
    assert 100 < stood < 400, "about half of the time is each one's"
    stage.long.set()
    stage.suspect.set()
    while "suspect" not in stage.done:
        any_house.clock.advance(1)
        life.engine.worker.membership.lease.renew(any_house.clock.monotonic())
        await work(life)
    assert stage.beside_a_suspect == []


@pytest.mark.requirement("F3")
async def test_one_worker_of_a_fleet_stands_aside_and_the_others_go_on(
    postgres_url: str, clock: VirtualClock
) -> None:
    house = House(postgres_url, clock)
    stage = Stage(house)
    fleet = [await stage.worker(concurrency=10) for _ in range(3)]
    for life in fleet:
        await life.app.deliver("long")
        await work(life)
    assert sorted(stage.running) == [(number, "long") for number in (1, 2, 3)]
    await suspected(fleet[0], 100)
    for life in fleet:
        await work(life)
    clock.advance(PATIENCE_SECONDS)
    aside = [await stands_aside(life) for life in fleet]
    assert aside == [True, False, False]
    assert stage.done == ["quick"] * 2
    stage.suspect.set()
    stage.long.set()
    for _ in range(300):
        clock.advance(0.5)
        for life in fleet:
            life.engine.worker.membership.lease.renew(clock.monotonic())
            await work(life)
    assert stage.done.count("suspect") == 100
    assert stage.beside_a_suspect == []
    await house.close()


async def stands_aside(life: Life) -> bool:
    """Whether it leaves alone what is due for anyone."""
    await life.app.deliver("quick")
    before = life.engine.running
    await work(life)
    left = [each.id for each in await life.app.list(state="pending") if each.target == "quick"]
    if left:
        await life.app.cancel(left[0])
    assert life.engine.running == before
    return bool(left)


@pytest.mark.requirement("F3")
async def test_a_hundred_suspects_leave_the_rest_its_turns(house: House) -> None:
    stage = Stage(house)
    stage.suspect.set()
    life = await stage.worker(concurrency=4)
    await suspected(life, 100)
    await life.app.deliver_many([("quick", None)] * 100)
    while stage.done.count("quick") < 100:
        await work(life)
    assert stage.done.count("suspect") <= 10, "they took no time, and so does their turn"
    while stage.done.count("suspect") < 100:
        await work(life)
    assert stage.beside_a_suspect == []


@pytest.mark.requirement("F3")
async def test_whoever_died_or_ended_standing_aside_is_followed_by_another(
    any_house: House,
) -> None:
    app = any_house.app()
    await app.open()
    workers = app.store.workers
    first, second = [await workers.register("host:1", 12.0, 4, []) for _ in range(2)]
    assert await workers.reserve_suspects(first)
    assert await workers.reserve_suspects(first), "safe to repeat"
    assert not await workers.reserve_suspects(second)
    await workers.release_suspects(first)
    assert await workers.reserve_suspects(second)
    await workers.end(second)
    assert await workers.reserve_suspects(first)
    any_house.clock.advance(13)
    third = await workers.register("host:3", 12.0, 4, [])
    assert not await workers.reserve_suspects(third)
    assert first in await workers.declare_dead(worker=third)
    assert await workers.reserve_suspects(third)
    assert not await workers.reserve_suspects(first), "it is dead"


@pytest.mark.requirement("F3")
async def test_of_two_that_step_aside_at_once_one_does(postgres_url: str) -> None:
    async with duly.App(postgres_url, environment={}) as app:
        workers = app.store.workers
        ids = [await workers.register("host:1", 12.0, 4, []) for _ in range(4)]
        for _ in range(10):
            stood = await asyncio.gather(*(workers.reserve_suspects(each) for each in ids))
            assert sum(stood) == 1
            await workers.release_suspects(ids[stood.index(True)])


class Roster:
    """A store's roster in which another stands aside, or nobody."""

    def __init__(self) -> None:
        self.taken = False
        self.asked = 0

    async def reserve_suspects(self, worker: int) -> bool:
        self.asked += 1
        return not self.taken

    async def release_suspects(self, worker: int) -> None:
        pass


@pytest.fixture
def list() -> Roster:
    return Roster()


@pytest.fixture
def aside(roster: Roster, clock: VirtualClock) -> Isolation:
    return Isolation(roster, clock)  # type: ignore[arg-type]


async def test_an_idle_worker_takes_a_suspect_at_once_and_a_busy_one_waits(
    aside: Isolation, clock: VirtualClock
) -> None:
    assert aside.wants(suspects=True, is_idle=True, others=True)
    assert not aside.wants(suspects=True, is_idle=False, others=False)
    clock.advance(PATIENCE_SECONDS)
    assert aside.wants(suspects=True, is_idle=False, others=True)
    assert not aside.wants(suspects=False, is_idle=False, others=True)
    assert not aside.wants(suspects=True, is_idle=False, others=True), "it is another one"


async def test_a_worker_asks_again_after_a_while_when_another_stands_aside(
    aside: Isolation, roster: Roster, clock: VirtualClock
) -> None:
    roster.taken = True
    assert not await aside.enter(7)
    assert not aside.wants(suspects=True, is_idle=True, others=False)
    clock.advance(ASK_AGAIN_SECONDS)
    assert aside.wants(suspects=True, is_idle=True, others=False)


async def test_each_wait_in_vain_is_twice_as_long_and_so_is_the_turn_of_the_rest(
    aside: Isolation, clock: VirtualClock
) -> None:
    expected = FIRST_WAIT_SECONDS
    for _ in range(6):
        assert await aside.enter(7)
        clock.advance(expected - 0.001)
        assert aside.wants(suspects=True, is_idle=False, others=True)
        clock.advance(0.001)
        assert not aside.wants(suspects=True, is_idle=False, others=True)
        await aside.leave(in_vain=True)
        assert not aside.wants(suspects=True, is_idle=True, others=True)
        assert aside.wants(suspects=True, is_idle=True, others=False), "nobody else waits"
        clock.advance(expected - 0.001)
        assert not aside.wants(suspects=True, is_idle=True, others=True)
        clock.advance(0.001)
        assert aside.wants(suspects=True, is_idle=False, others=True)
        expected = min(2 * expected, LONGEST_WAIT_SECONDS)
