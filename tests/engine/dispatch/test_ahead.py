"""A worker holds ahead what its fast handlers complete in 50 ms, and hands back the rest."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import Delivery
from duly.engine.execution.waiting import LONGEST_HOLD_SECONDS
from tests.engine.cluster import Cluster, WorkerProcess, states
from tests.stores.store_probe import StoreProbe

pytestmark = pytest.mark.requirement("D6")
SLOTS = 4
FAST = 202
"""So many a second: ten in 50 ms."""


class Slots:
    """A handler whose attempts end one by one, as the test lets them."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.inside = self.most_inside = 0
        self._pass = asyncio.Semaphore(0)

    async def handle(self, delivery: Delivery[Any]) -> None:
        self.begun.append(delivery.payload)
        self.inside += 1
        self.most_inside = max(self.inside, self.most_inside)
        try:
            await self._pass.acquire()
        finally:
            self.inside -= 1

    def let_end(self, many: int) -> None:
        for _ in range(many):
            self._pass.release()


def hasten(process: WorkerProcess, *targets: str, per_second: int = FAST) -> None:
    """Let a second pass in which so many attempts of each target ended."""
    worker = process.engine.worker
    numbers = {name: number for number, name in worker.directory.names.items()}
    for target in targets:
        worker.pace.ended[numbers[target]] += per_second
    process.app.clock.advance(1)  # type: ignore[attr-defined]


async def start(cluster: Cluster, slots: Slots, *targets: str, **options: Any) -> WorkerProcess:
    app = cluster.app(concurrency=SLOTS, lease=30)
    for target in targets or ("work",):
        app.handler(target, retry=duly.no_retry, **options)(slots.handle)
    return await cluster.start_worker(app)


async def holding(cluster: Cluster, slots: Slots, many: int = 40) -> WorkerProcess:
    """A worker whose slots are full and that holds more ahead."""
    process = await start(cluster, slots)
    await process.app.deliver_many(("work", n) for n in range(many))
    hasten(process, "work")
    await process.tick()
    assert process.engine.worker.runner.held == 8
    return process


async def settle(process: WorkerProcess) -> None:
    await process.yield_to_tasks()
    await process.engine.worker.settler.flush()


async def histories(process: WorkerProcess) -> list[Any]:
    found: list[Any] = []
    for each in await process.app.list(limit=100):
        found += await process.app.deliveries.history(each.id)
    return found


async def test_what_is_held_ahead_runs_as_slots_get_free(any_cluster: Cluster) -> None:
    slots = Slots()
    process = await holding(any_cluster, slots)
    assert process.engine.running == SLOTS
    assert await states(process.app) == {"processing": 12, "pending": 28}
    slots.let_end(5)
    await settle(process)
    assert (len(slots.begun), process.engine.worker.runner.held) == (9, 3)
    assert await states(process.app) == {"completed": 5, "processing": 7, "pending": 28}
    slots.let_end(99)
    for _ in range(20):
        await process.engine.worker.step()
    assert await states(process.app) == {"completed": 40}
    assert (sorted(slots.begun), slots.most_inside) == (list(range(40)), SLOTS)


async def test_claims_are_few_it_waits_until_less_than_half_is_left(cluster: Cluster) -> None:
    slots = Slots()
    process = await holding(cluster, slots)
    runner = process.engine.worker.runner
    for ended, held in ((1, 7), (1, 6), (1, 5), (1, 10)):
        slots.let_end(ended)
        await settle(process)
        await process.tick()
        assert runner.held == held
    assert (process.engine.running, slots.most_inside) == (SLOTS, SLOTS)


async def test_an_urgent_one_goes_before_what_is_held(any_cluster: Cluster) -> None:
    slots = Slots()
    process = await holding(any_cluster, slots)
    await process.app.deliver("work", "urgent", priority=9)
    slots.let_end(4)
    await settle(process)
    await process.tick()
    assert "urgent" not in slots.begun
    slots.let_end(1)
    await settle(process)
    assert slots.begun[-1] == "urgent"


async def test_what_is_not_started_in_time_goes_to_another_worker(any_cluster: Cluster) -> None:
    slots, hints = Slots(), []
    process = await holding(any_cluster, slots)
    worker = process.engine.worker
    worker.store.wakeups.listen(lambda: hints.append(1))
    await worker.store.wakeups.check()
    any_cluster.clock.advance(LONGEST_HOLD_SECONDS - 0.01)
    await process.tick()
    assert worker.runner.held == 8
    any_cluster.clock.advance(0.01)
    hints.clear()
    await worker.dispatcher.tick()
    assert worker.runner.held == 0
    await worker.settler.flush()
    assert hints, "others are told"
    assert await states(process.app) == {"processing": SLOTS, "pending": 36}
    assert await histories(process) == []
    assert {each.attempt for each in await process.app.list(limit=100)} == {0}
    if not worker.store.single_owner:
        other_slots = Slots()
        other = await start(any_cluster, other_slots)
        assert await other.tick() == SLOTS
        assert other_slots.begun == [4, 5, 6, 7]
        await other.kill()


async def test_what_was_handed_back_does_not_count_as_done(cluster: Cluster) -> None:
    process = await holding(cluster, Slots())
    cluster.clock.advance(2)
    await process.tick()
    assert process.engine.worker.runner.held == 0
    assert not process.engine.worker.pace.ended
    assert not process.engine.worker.pace._rates
    assert process.app.telemetry.counts["completed"] == 0


async def test_a_target_that_hangs_gets_nothing_ahead(any_cluster: Cluster) -> None:
    process = await holding(any_cluster, Slots())
    for _ in range(4):
        any_cluster.clock.advance(0.5)
        await process.tick()
        await process.engine.worker.settler.flush()
    assert process.engine.worker.runner.held == 0
    assert await states(process.app) == {"processing": SLOTS, "pending": 36}


async def test_a_new_target_gets_its_share_of_slots_beside_a_fast_one(cluster: Cluster) -> None:
    slots = Slots()
    process = await start(cluster, slots, "fast", "new")
    await process.app.deliver_many(("fast", "fast") for _ in range(40))
    hasten(process, "fast")
    await process.tick()
    await process.app.deliver_many(("new", "new") for _ in range(10))
    for _ in range(20):
        slots.let_end(1)
        await settle(process)
        await process.tick()
    assert slots.begun.count("new") >= SLOTS
    assert slots.most_inside == SLOTS


async def claim_limited(cluster: Cluster, kind: str, slots: Slots) -> WorkerProcess:
    """A worker with much to do for a target that must not wait for slots."""
    options: dict[str, dict[str, Any]] = {
        "limited": {"in_flight": 99},
        "keys": {"limits": duly.per("customer", in_flight=99)},
        "paced keys": {"limits": duly.per("customer", rate=99, in_flight=99)},
        "single keys": {"limits": duly.per("customer", in_flight=1)},
    }
    process = await start(cluster, slots, **options.get(kind, {}))
    items: list[dict[str, Any]] = [{"target": "work", "payload": n} for n in range(40)]
    for each in items:
        if kind == "fair" or kind.endswith("keys"):
            key = "fair_key" if kind == "fair" else "limit_key"
            each[key] = f"k{each['payload'] % 2}"
    await process.app.deliver_many(items)
    await process.engine.worker._work.survey()
    hasten(process, *process.engine.worker.directory.names.values())
    return process


@pytest.mark.parametrize("kind", ["limited", "paced keys", "single keys"])
async def test_what_has_limits_is_claimed_for_free_slots_only(
    any_cluster: Cluster, kind: str
) -> None:
    process = await claim_limited(any_cluster, kind, Slots())
    worker = process.engine.worker
    for _ in range(3):
        worker.signal.hint()
        await worker.dispatcher.tick()
        assert worker.runner.held == 0
    assert 0 < worker.runner.running <= SLOTS
    await process.kill()


@pytest.mark.requirement("P6")
@pytest.mark.requirement("P10")
@pytest.mark.parametrize("kind", ["fair", "keys"])
async def test_keys_may_be_held_ahead(any_cluster: Cluster, kind: str) -> None:
    slots = Slots()
    process = await claim_limited(any_cluster, kind, slots)
    await process.tick()
    assert process.engine.worker.runner.held == 8
    slots.let_end(99)
    await settle(process)
    assert sum(n % 2 for n in slots.begun) == 6


async def holding_of_a_key(cluster: Cluster, slots: Slots) -> WorkerProcess:
    """A worker that holds as much of a key with eight in flight as may be held ahead."""
    process = await start(cluster, slots, limits=duly.per("customer", in_flight=8))
    await process.app.deliver_many(
        {"target": "work", "payload": n, "limit_key": "flooded"} for n in range(40)
    )
    await process.engine.worker._work.survey()
    hasten(process, "work")
    await process.tick()
    assert process.engine.worker.runner.held == 2
    return process


@pytest.mark.requirement("P6")
async def test_what_is_held_ahead_of_a_limit_leaves_a_quarter_to_others(
    any_cluster: Cluster,
) -> None:
    slots, other_slots = Slots(), Slots()
    process = await holding_of_a_key(any_cluster, slots)
    assert await states(process.app) == {"processing": 6, "pending": 34}
    if process.engine.worker.store.single_owner:
        return
    other = await start(any_cluster, other_slots, limits=duly.per("customer", in_flight=8))
    assert await other.tick() == 2
    assert await states(process.app) == {"processing": 8, "pending": 32}
    # What the first worker ends goes to those who can start it; it holds no more ahead.
    slots.let_end(4)
    await settle(process)
    assert await other.tick() == 4
    hasten(process, "work")
    await process.tick()
    assert (process.engine.worker.runner.running, process.engine.worker.runner.held) == (4, 0)
    assert await states(process.app) == {"completed": 4, "processing": 8, "pending": 28}
    await other.kill()


@pytest.mark.requirement("P6")
async def test_it_does_not_ask_again_and_again_for_what_a_limit_does_not_allow(
    any_cluster: Cluster,
) -> None:
    slots = Slots()
    process = await holding_of_a_key(any_cluster, slots)
    worker = process.engine.worker
    before = worker.runner.late.claims
    slots.let_end(1)
    await process.yield_to_tasks()
    for _ in range(9):
        await worker.dispatcher.tick()
    assert worker.runner.held == 1
    assert worker.runner.late.claims == before + 2, "one claim"
    # Settled lanes leave room: no time has to pass.
    slots.let_end(3)
    await settle(process)
    assert (worker.runner.running, worker.runner.held) == (2, 0)
    await worker.dispatcher.tick()
    assert (worker.runner.running, worker.runner.held) == (4, 2)
    slots.let_end(99)
    for _ in range(40):
        any_cluster.clock.advance(0.1)
        await worker.membership.beat_once()
        await worker.step()
    assert await states(process.app) == {"completed": 40}
    assert slots.most_inside == SLOTS


async def test_streams_keep_their_order(any_cluster: Cluster) -> None:
    slots = Slots()
    process = await start(any_cluster, slots)
    await process.app.deliver_many(
        {"target": "work", "payload": (n % 10, n), "stream": f"s{n % 10}"} for n in range(40)
    )
    hasten(process, "work")
    await process.tick()
    assert process.engine.worker.runner.held == 6
    any_cluster.clock.advance(LONGEST_HOLD_SECONDS)
    await process.tick()
    await settle(process)
    assert process.engine.worker.runner.held == 0
    slots.let_end(99)
    for _ in range(20):
        await process.engine.worker.step()
    assert await states(process.app) == {"completed": 40}
    for stream in range(10):
        numbers = [n for at, n in slots.begun if at == stream]
        assert numbers == sorted(numbers)


@pytest.mark.requirement("D7")
async def test_nothing_held_starts_after_the_lease_ran_out(any_cluster: Cluster) -> None:
    slots = Slots()
    process = await holding(any_cluster, slots)
    any_cluster.clock.advance(30)
    slots.let_end(99)
    await process.yield_to_tasks()
    assert len(slots.begun) == SLOTS
    assert process.engine.worker.runner.held == process.engine.worker.runner.running == 0


@pytest.mark.requirement("D7")
async def test_a_lost_lease_drops_what_is_held(any_cluster: Cluster) -> None:
    slots = Slots()
    process = await holding(any_cluster, slots)
    worker = process.engine.worker
    any_cluster.clock.advance(31)
    await any_cluster._apps[0].store.workers.declare_dead()
    await worker.membership.beat_once()
    await worker.lease_monitor.tick()
    assert worker.runner.tokens() == set()
    assert worker.settler.unsettled == 0
    slots.let_end(99)
    for _ in range(30):
        await worker.step()
    assert await states(process.app) == {"completed": 40}
    assert {each.attempt for each in await process.app.list(limit=100)} == {1}


@pytest.mark.requirement("D13")
async def test_a_stop_hands_back_what_is_held_before_it_waits(any_cluster: Cluster) -> None:
    slots = Slots()
    process = await holding(any_cluster, slots)
    worker = process.engine.worker
    stopping = asyncio.create_task(process.engine.stop())
    await process.yield_to_tasks()
    assert (worker.runner.held, worker.runner.running, worker.settler.unsettled) == (0, SLOTS, 8)
    slots.let_end(SLOTS)
    await stopping
    assert len(slots.begun) == SLOTS
    assert await states(process.app) == {"completed": SLOTS, "pending": 36}
    assert [each.outcome for each in await histories(process)] == ["completed"] * SLOTS


@pytest.mark.requirement("D13")
async def test_a_worker_that_drains_hands_back_what_is_held(any_cluster: Cluster) -> None:
    process = await holding(any_cluster, Slots())
    worker = process.engine.worker
    worker.membership.lease.draining = True
    await worker.dispatcher.tick()
    await worker.settler.flush()
    assert worker.runner.held == 0
    assert await states(process.app) == {"processing": SLOTS, "pending": 36}


@pytest.mark.requirement("P5")
async def test_what_is_held_can_be_cancelled_and_never_runs(any_cluster: Cluster) -> None:
    slots = Slots()
    process = await holding(any_cluster, slots)
    held = next(each for each in await process.app.list(limit=100) if each.payload == 11)
    await process.app.cancel(held.id)
    await process.engine.worker.running_monitor.tick()
    await process.engine.worker.settler.flush()
    cancelled = await process.app.get(held.id)
    assert (cancelled.state, cancelled.attempt) == ("cancelled", 0)
    assert process.engine.worker.runner.held == 7
    assert process.app.telemetry.counts["DeliveryCancelled"] == 1
    slots.let_end(99)
    for _ in range(20):
        await process.engine.worker.step()
    assert sorted(slots.begun) == [n for n in range(40) if n != 11]


@pytest.mark.requirement("F3")
async def test_what_a_dead_worker_held_is_not_held_again(any_cluster: Cluster) -> None:
    process = await start(any_cluster, Slots())
    await process.app.deliver_many(("work", n) for n in range(40))
    probe = StoreProbe(process.app.store, any_cluster.clock)  # type: ignore[arg-type]
    await probe.sql("update duly.agenda set crashes = 1")
    hasten(process, "work")
    await process.tick()
    await process.engine.worker.settler.flush()
    await process.tick()
    assert process.engine.worker.runner.held == 0
    assert await states(process.app) == {"processing": SLOTS, "pending": 36}
    rows = await probe.sql("select distinct crashes from duly.agenda")
    assert [row["crashes"] for row in rows] == [1]


@pytest.mark.requirement("F3")
async def test_two_crashes_make_suspects_only_of_what_ran(any_cluster: Cluster) -> None:
    for _ in range(2):
        process = await start(any_cluster, Slots())
        if not await process.app.list(limit=1):
            now = any_cluster.clock.now()
            await process.app.deliver_many(
                {"target": "work", "payload": n, "at": now - timedelta(minutes=40 - n)}
                for n in range(40)
            )
        hasten(process, "work")
        await process.tick()
        await process.engine.worker.settler.flush()
        await process.kill()
        any_cluster.clock.advance(60)
    process = await start(any_cluster, Slots())
    probe = StoreProbe(process.app.store, any_cluster.clock)  # type: ignore[arg-type]
    (row,) = await probe.sql("select count(*) as many from duly.agenda where crashes > 1")
    assert row["many"] == SLOTS


@pytest.mark.requirement("F3")
async def test_a_suspect_runs_alone_also_after_claims_ahead(cluster: Cluster) -> None:
    slots = Slots()
    process = await holding(cluster, slots, many=30)
    probe = StoreProbe(process.app.store, cluster.clock)  # type: ignore[arg-type]
    suspect = await process.app.deliver("work", "suspect")
    place = probe.agenda_id(suspect.id)
    await probe.sql(f"update duly.agenda set crashes = 2, priority = 0 where delivery = {place}")
    inside: dict[Any, int] = {}
    for _ in range(60):
        slots.let_end(1)
        await settle(process)
        cluster.clock.advance(0.1)
        await process.engine.worker.membership.beat_once()
        await process.tick()
        inside.setdefault(slots.begun[-1], slots.inside)
    assert inside["suspect"] == 1
    assert len(slots.begun) == 31


@pytest.mark.requirement("D7")
async def test_a_suspect_that_did_not_start_holds_up_nothing(cluster: Cluster) -> None:
    process = await start(cluster, slots := Slots())
    worker = process.engine.worker
    await process.app.deliver("work", "suspect")
    probe = StoreProbe(process.app.store, cluster.clock)  # type: ignore[arg-type]
    await probe.sql("update duly.agenda set crashes = 2, priority = 0")
    await worker.dispatcher.tick()
    assert worker.runner.is_alone
    cluster.clock.advance(30)
    await settle(process)
    assert (slots.begun, worker.runner.running, worker.runner.is_alone) == ([], 0, False)
    await worker.membership.beat_once()
    await process.tick()
    assert slots.begun == ["suspect"]


async def test_unwritten_outcomes_stop_claims_ahead(cluster: Cluster) -> None:
    slots = Slots()
    process = await start(cluster, slots)
    slots.let_end(999)
    await process.app.deliver_many(("work", n) for n in range(200))
    hasten(process, "work")
    for _ in range(40):
        await process.tick()
    worker = process.engine.worker
    assert worker.settler.unsettled <= 2 * (SLOTS + 10)
    assert worker.runner.held == 0
