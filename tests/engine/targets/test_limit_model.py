"""Random workers, deaths and clock steps: no limit of a target is ever exceeded."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import duly
from duly import Delivery
from tests.engine.cluster import Cluster, WorkerProcess

pytestmark = pytest.mark.requirement("P6")
RATE, IN_FLIGHT = 20.0, 4
BURST = 1 + RATE * 0.1
LEASE = 30
STEPS = 120
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 14))]


class Model:
    """The workers, and the deliveries as their receiver sees them."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster, self.clock = cluster, cluster.clock
        self.chance = random.Random(seed)
        self.single = cluster.url.startswith("sqlite")
        self.workers: list[WorkerProcess] = []
        self.inside: dict[str, asyncio.Event] = {}
        self.starts: list[float] = []
        self.steps = self.sent = 0
        self.client = cluster.app()
        self.client.expect("report")

    async def handle(self, delivery: Delivery[Any]) -> None:
        name = f"{delivery.id} {delivery.attempt}"
        self.inside[name] = ended = asyncio.Event()
        self.starts.append(self.clock.monotonic())
        assert len(self.inside) <= IN_FLIGHT, "more run at once than the limit"
        try:
            await ended.wait()
        finally:
            del self.inside[name]

    async def start(self) -> None:
        if len(self.workers) < (1 if self.single else 3):
            app = self.cluster.app(concurrency=8, lease=LEASE)
            app.handler("report", retry=duly.no_retry, rate=RATE, in_flight=IN_FLIGHT)(self.handle)
            self.workers.append(await self.cluster.start_worker(app))

    async def deliver(self) -> None:
        many = self.chance.randrange(1, 6)
        streams = [self.chance.choice((None, None, "a", "b")) for _ in range(many)]
        items = [
            {"target": "report", "payload": n, "stream": each} for n, each in enumerate(streams)
        ]
        await self.client.deliver_many(items)
        self.sent += many

    async def claim(self) -> None:
        if self.workers:
            process = self.chance.choice(self.workers)
            await process.engine.worker.membership.beat_once()
            await process.tick()
            process.engine.worker.runner._tasks.start_all()
            await process.yield_to_tasks()

    async def end(self) -> None:
        """End some deliveries, and settle what has ended."""
        for each in self.chance.sample(sorted(self.inside), (len(self.inside) + 1) // 2):
            self.inside[each].set()
        for process in self.workers:
            await process.yield_to_tasks()
            await process.engine.worker.settler.flush()
            await process.engine.worker.admission.tick()

    async def end_all(self) -> None:
        for each in self.inside.values():
            each.set()
        await self.end()

    async def die(self) -> None:
        if self.workers and self.chance.random() < 0.4:
            process = self.workers.pop(self.chance.randrange(len(self.workers)))
            await process.kill()

    async def wait(self) -> None:
        self.clock.advance(self.chance.choice((0.001, 0.03, 0.2, 1.0)))
        await self.beat()

    async def wait_long(self) -> None:
        """Let the leases of dead workers run out, and reclaim what they held."""
        for _ in range(4):
            self.clock.advance(LEASE / 3)
            await self.beat()
        for process in self.workers:
            await process.engine.worker.recovery.tick()

    async def beat(self) -> None:
        for process in self.workers:
            await process.engine.worker.membership.beat_once()

    async def step_clock(self) -> None:
        """Step the wall clock: at most a burst more may start."""
        if self.chance.random() < 0.3:
            self.clock.step(self.chance.choice((-20.0, -2.0, 2.0)))
            self.steps += 1
            await self.beat()

    def check_rate(self) -> None:
        for first, start in enumerate(self.starts):
            for last in range(first, len(self.starts)):
                most = RATE * (self.starts[last] - start) + BURST * (1 + self.steps) + 1e-6
                assert last - first + 1 <= most, "more started than the rate allows"


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_limit_is_exceeded_by_random_workers(any_cluster: Cluster, seed: int) -> None:
    model = Model(any_cluster, seed)
    await model.client.open()
    await model.start()
    moves: list[Callable[[], Awaitable[None]]] = [
        *(model.deliver, model.claim, model.claim, model.claim, model.end, model.end),
        *(model.die, model.start, model.wait, model.wait, model.wait_long, model.step_clock),
    ]
    for _ in range(STEPS):
        await model.chance.choice(moves)()
        assert len(model.inside) <= IN_FLIGHT
    model.check_rate()
    await model.start()
    for _ in range(100):
        await model.wait_long()
        await model.claim()
        await model.end_all()
    states = [each.state for each in await model.client.list(limit=1000)]
    # Those that many workers held when they died are dead letters.
    assert set(states) <= {"completed", "dead"}, "a slot was leaked"
    assert len(states) == model.sent
