"""Nothing that can be claimed waits for long, and the dispatcher never ticks without a pause."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly.engine.loops import NOW, Pause
from tests.engine.cluster import Cluster, WorkerProcess
from tests.engine.dispatch.test_ahead import Slots, hasten

pytestmark = pytest.mark.requirement("D6", "P10")


async def tick(process: WorkerProcess) -> Pause:
    """One turn of the dispatcher's loop."""
    worker = process.engine.worker
    worker.dispatcher.wake.clear()
    pause = await worker.dispatcher.tick()
    await process.yield_to_tasks()
    await worker.settler.flush()
    return pause


async def worker_of(cluster: Cluster, slots: Slots, concurrency: int, **options: Any) -> Any:
    app = cluster.app(concurrency=concurrency, lease=3000)
    app.handler("work", retry=duly.no_retry, **options)(slots.handle)
    return await cluster.start_worker(app)


async def test_a_key_of_low_priority_has_its_turn_beside_a_flood(cluster: Cluster) -> None:
    slots = Slots()
    process = await worker_of(cluster, slots, 4)
    slots.let_end(10_000)
    low: dict[str, Any] = {"target": "work", "priority": 3, "fair_key": "low"}
    # A round over this group has ended, and the group is still there.
    later = cluster.clock.now() + timedelta(hours=1)
    await process.app.deliver_many([low | {"at": later}, low | {"payload": "first"}])
    process.engine.worker.signal.hint()
    for _ in range(8):
        await tick(process)
    assert slots.begun == ["first"]
    await process.app.deliver_many(
        {"target": "work", "payload": n, "priority": 9, "fair_key": "high"} for n in range(400)
    )
    await process.app.deliver_many([low | {"payload": "last"}])
    process.engine.worker.signal.hint()
    process.engine.worker.pace.rest(1000)
    for _ in range(30):
        await tick(process)
        cluster.clock.advance(0.01)
    assert "last" in slots.begun


@pytest.mark.requirement("P6")
@pytest.mark.parametrize("concurrency", [1, 2, 3])
@pytest.mark.parametrize("in_flight", [2, 3, 4, 8])
async def test_it_rests_when_a_key_is_full_for_what_is_ahead(
    cluster: Cluster, concurrency: int, in_flight: int
) -> None:
    limits = duly.per("customer", in_flight=in_flight)
    process = await worker_of(cluster, Slots(), concurrency, limits=limits)
    await process.app.deliver_many(
        {"target": "work", "payload": n, "limit_key": "k"} for n in range(40)
    )
    await process.engine.worker._work.survey()
    hasten(process, "work")
    pauses = [await tick(process) for _ in range(10)]
    assert pauses.count(NOW) <= 2
    await process.kill()


async def test_a_hint_during_a_claim_that_leaves_more_is_not_lost(cluster: Cluster) -> None:
    slots = Slots()
    app = cluster.app(concurrency=10, lease=30)
    for target in ("one", "other"):
        app.handler(target, retry=duly.no_retry)(slots.handle)
    process = await cluster.start_worker(app)
    claims, waiting = process.engine.worker.claims, ["other"]
    make = claims.make

    async def make_meanwhile(*given: Any) -> Any:
        claimed = await make(*given)
        if waiting:
            await app.deliver(waiting.pop(), "meanwhile")
            process.engine.worker.signal.hint()
        return claimed

    claims.make = make_meanwhile  # type: ignore[method-assign]
    await app.deliver_many(("one", n) for n in range(7))
    process.engine.worker.signal.hint()
    pause = NOW
    while pause == NOW:
        pause = await tick(process)
    assert "meanwhile" in slots.begun
    await process.kill()
