"""A suspect runs alone, on one worker that is reserved for it, while the others continue."""

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
from tests.engine.cluster import Cluster, WorkerProcess
from tests.stores.store_probe import StoreProbe


class Scenario:
    """Three handlers: one that returns at once, one that waits, and the suspect's."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.done: list[str] = []
        self.long, self.suspect = asyncio.Event(), asyncio.Event()
        self.running: list[tuple[int, str]] = []
        self.beside_a_suspect: list[str] = []

    async def worker(self, **settings: Any) -> WorkerProcess:
        """Start a worker with the three handlers."""
        app = self.cluster.app(lease=30, **settings)
        number = len(self.cluster._apps)
        waits = {"quick": None, "long": self.long, "suspect": self.suspect}
        for target, event in waits.items():
            app.handler(target, retry=duly.delays(*[0] * 9))(self.handler(number, target, event))
        return await self.cluster.start_worker(app)

    def handler(self, number: int, target: str, event: asyncio.Event | None) -> Any:
        async def handle(delivery: Delivery[Any]) -> None:
            self.running.append((number, target))
            self.record_neighbours(number)
            try:
                if event is not None:
                    await event.wait()
            finally:
                self.running.remove((number, target))
            self.done.append(target)

        return handle

    def record_neighbours(self, number: int) -> None:
        here = [target for where, target in self.running if where == number]
        if "suspect" in here and len(here) > 1:
            self.beside_a_suspect += here


async def make_suspects(process: WorkerProcess, many: int = 1) -> list[str]:
    """Deliveries whose workers died twice."""
    probe = StoreProbe(process.app.store, process.app.clock)  # type: ignore[arg-type]
    accepted = [await process.app.deliver("suspect") for _ in range(many)]
    for each in accepted:
        place = probe.agenda_id(each.id)
        await probe.sql(
            f"update duly.agenda set crashes = 2, priority = 0 where delivery = {place}"
        )
    return [each.id for each in accepted]


async def work(process: WorkerProcess) -> None:
    """Claim, run and settle whatever can finish."""
    await process.tick()
    await process.engine.worker.settler.flush()
    await process.tick()
    await process.engine.worker.settler.flush()


@pytest.mark.requirement("F3")
async def test_a_due_suspect_does_not_block_others_while_a_handler_runs(
    any_cluster: Cluster,
) -> None:
    scenario = Scenario(any_cluster)
    process = await scenario.worker(concurrency=20)
    await process.app.deliver("long")
    await work(process)
    await make_suspects(process)
    await process.app.deliver_many([("quick", None)] * 50)
    for _ in range(10):
        await work(process)
    assert scenario.done == ["quick"] * 50
    scenario.suspect.set()
    scenario.long.set()
    while len(scenario.done) < 52:
        await work(process)
    assert scenario.done[50:] == ["long", "suspect"]


@pytest.mark.requirement("F3")
async def test_a_busy_worker_finally_reserves_itself_and_runs_the_suspect_alone(
    any_cluster: Cluster,
) -> None:
    scenario = Scenario(any_cluster)
    process = await scenario.worker(concurrency=20)
    await process.app.deliver("long")
    await work(process)
    await make_suspects(process)
    await work(process)
    any_cluster.clock.advance(PATIENCE_SECONDS)
    await process.app.deliver("quick")
    await work(process)
    assert scenario.done == [], "it claims nothing more and waits for its handler"
    scenario.long.set()
    await process.yield_to_tasks()
    await work(process)
    assert [target for _, target in scenario.running] == ["suspect"]
    scenario.suspect.set()
    await process.yield_to_tasks()
    await work(process)
    assert scenario.done == ["long", "suspect", "quick"]
    assert scenario.beside_a_suspect == []


@pytest.mark.requirement("F3")
async def test_a_worker_waits_for_its_own_handler_only_for_a_limited_time(
    any_cluster: Cluster,
) -> None:
    scenario = Scenario(any_cluster)
    process = await scenario.worker(concurrency=20)
    await process.app.deliver("long")
    await work(process)
    await make_suspects(process)
    await work(process)
    idle, waited = 0, 0.0
    for second in range(600):
        any_cluster.clock.advance(1)
        await process.app.store.workers.beat(process.engine.worker.membership.worker)
        process.engine.worker.membership.lease.renew(any_cluster.clock.monotonic())
        await process.app.deliver("quick", second)
        before = len(scenario.done)
        await work(process)
        idle += len(scenario.done) == before
        waited = waited + 1 if len(scenario.done) == before else 0
        assert waited <= LONGEST_WAIT_SECONDS + 1
    assert 100 < idle < 400, "each waits about half of the time"
    scenario.long.set()
    scenario.suspect.set()
    while "suspect" not in scenario.done:
        any_cluster.clock.advance(1)
        process.engine.worker.membership.lease.renew(any_cluster.clock.monotonic())
        await work(process)
    assert scenario.beside_a_suspect == []


@pytest.mark.requirement("F3")
async def test_one_worker_of_several_is_reserved_and_the_others_continue(
    postgres_url: str, clock: VirtualClock
) -> None:
    cluster = Cluster(postgres_url, clock)
    scenario = Scenario(cluster)
    workers = [await scenario.worker(concurrency=10) for _ in range(3)]
    for process in workers:
        await process.app.deliver("long")
        await work(process)
    assert sorted(scenario.running) == [(number, "long") for number in (1, 2, 3)]
    await make_suspects(workers[0], 100)
    for process in workers:
        await work(process)
    clock.advance(PATIENCE_SECONDS)
    reserved = [await is_reserved(process) for process in workers]
    assert reserved == [True, False, False]
    assert scenario.done == ["quick"] * 2
    scenario.suspect.set()
    scenario.long.set()
    for _ in range(300):
        clock.advance(0.5)
        for process in workers:
            process.engine.worker.membership.lease.renew(clock.monotonic())
            await work(process)
    assert scenario.done.count("suspect") == 100
    assert scenario.beside_a_suspect == []
    await cluster.close()


async def is_reserved(process: WorkerProcess) -> bool:
    """Whether the worker does not claim due deliveries."""
    await process.app.deliver("quick")
    before = process.engine.running
    await work(process)
    left = [each.id for each in await process.app.list(state="pending") if each.target == "quick"]
    if left:
        await process.app.cancel(left[0])
    assert process.engine.running == before
    return bool(left)


@pytest.mark.requirement("F3")
async def test_a_hundred_suspects_do_not_starve_other_deliveries(cluster: Cluster) -> None:
    scenario = Scenario(cluster)
    scenario.suspect.set()
    process = await scenario.worker(concurrency=4)
    await make_suspects(process, 100)
    await process.app.deliver_many([("quick", None)] * 100)
    while scenario.done.count("quick") < 100:
        await work(process)
    assert scenario.done.count("suspect") <= 10, "suspects and others take turns"
    while scenario.done.count("suspect") < 100:
        await work(process)
    assert scenario.beside_a_suspect == []


@pytest.mark.requirement("F3")
async def test_another_worker_is_reserved_after_the_first_died_or_ended(
    any_cluster: Cluster,
) -> None:
    app = any_cluster.app()
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
    any_cluster.clock.advance(13)
    third = await workers.register("host:3", 12.0, 4, [])
    assert not await workers.reserve_suspects(third)
    assert first in await workers.declare_dead(worker=third)
    assert await workers.reserve_suspects(third)
    assert not await workers.reserve_suspects(first), "it is dead"


@pytest.mark.requirement("F3")
async def test_of_concurrent_reservations_one_succeeds(postgres_url: str) -> None:
    async with duly.App(postgres_url, environment={}) as app:
        workers = app.store.workers
        ids = [await workers.register("host:1", 12.0, 4, []) for _ in range(4)]
        for _ in range(10):
            reserved = await asyncio.gather(*(workers.reserve_suspects(each) for each in ids))
            assert sum(reserved) == 1
            await workers.release_suspects(ids[reserved.index(True)])


class FakeWorkers:
    """A workers table in which another worker may be reserved."""

    def __init__(self) -> None:
        self.taken = False
        self.calls = 0

    async def reserve_suspects(self, worker: int) -> bool:
        self.calls += 1
        return not self.taken

    async def release_suspects(self, worker: int) -> None:
        pass


@pytest.fixture
def workers() -> FakeWorkers:
    return FakeWorkers()


@pytest.fixture
def isolation(workers: FakeWorkers, clock: VirtualClock) -> Isolation:
    return Isolation(workers, clock)  # type: ignore[arg-type]


async def test_an_idle_worker_takes_a_suspect_at_once_and_a_busy_one_waits(
    isolation: Isolation, clock: VirtualClock
) -> None:
    assert isolation.wants(suspects=True, is_idle=True, others=True)
    assert not isolation.wants(suspects=True, is_idle=False, others=False)
    clock.advance(PATIENCE_SECONDS)
    assert isolation.wants(suspects=True, is_idle=False, others=True)
    assert not isolation.wants(suspects=False, is_idle=False, others=True)
    assert not isolation.wants(suspects=True, is_idle=False, others=True), "another suspect"


async def test_a_worker_asks_again_later_when_another_is_reserved(
    isolation: Isolation, workers: FakeWorkers, clock: VirtualClock
) -> None:
    workers.taken = True
    assert not await isolation.enter(7)
    assert not isolation.wants(suspects=True, is_idle=True, others=False)
    clock.advance(ASK_AGAIN_SECONDS)
    assert isolation.wants(suspects=True, is_idle=True, others=False)


async def test_each_wait_in_vain_doubles_the_next_wait_and_the_turn_of_the_others(
    isolation: Isolation, clock: VirtualClock
) -> None:
    expected = FIRST_WAIT_SECONDS
    for _ in range(6):
        assert await isolation.enter(7)
        clock.advance(expected - 0.001)
        assert isolation.wants(suspects=True, is_idle=False, others=True)
        clock.advance(0.001)
        assert not isolation.wants(suspects=True, is_idle=False, others=True)
        await isolation.leave(in_vain=True)
        assert not isolation.wants(suspects=True, is_idle=True, others=True)
        assert isolation.wants(suspects=True, is_idle=True, others=False), "no other delivery waits"
        clock.advance(expected - 0.001)
        assert not isolation.wants(suspects=True, is_idle=True, others=True)
        clock.advance(0.001)
        assert isolation.wants(suspects=True, is_idle=False, others=True)
        expected = min(2 * expected, LONGEST_WAIT_SECONDS)
