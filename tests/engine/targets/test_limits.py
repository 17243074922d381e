"""Limits of handlers hold over all workers, and follow the newest declaration."""

from __future__ import annotations

from typing import Any

import pytest

import duly
from duly import App
from duly.ports import GateChange
from tests.engine.cluster import Barrier, Cluster, WorkerProcess

pytestmark = pytest.mark.requirement("P6")


async def three_workers(cluster: Cluster, barrier: Barrier, **options: Any) -> list[WorkerProcess]:
    found = []
    for _ in range(1 if cluster.url.startswith("sqlite") else 3):
        app = cluster.app(concurrency=50)
        app.handler("report", retry=duly.no_retry, **options)(barrier.handle)
        found.append(await cluster.start_worker(app))
    return found


async def test_all_workers_together_run_at_most_the_limit(any_cluster: Cluster) -> None:
    barrier = Barrier()
    workers = await three_workers(any_cluster, barrier, in_flight=5)
    await workers[0].app.deliver_many([("report", n) for n in range(12)])
    for _ in range(3):
        for each in workers:
            await each.tick()
        any_cluster.clock.advance(1)
    assert (barrier.inside, barrier.most_inside) == (5, 5)
    limit = await workers[0].app.limits.get("report")
    assert (limit.in_flight, limit.in_flight_now, limit.waiting) == (5, 5, 7)
    barrier.open.set()
    for _ in range(10):
        for each in workers:
            await each.engine.worker.step()
        any_cluster.clock.advance(1)
    assert (len(barrier.entered), barrier.most_inside) == (12, 5)


async def test_the_rate_holds_for_all_workers_together(any_cluster: Cluster) -> None:
    barrier = Barrier()
    barrier.open.set()
    workers = await three_workers(any_cluster, barrier, rate=10)
    await workers[0].app.deliver_many([("report", n) for n in range(60)])
    counts = []
    for _ in range(4):
        before = len(barrier.entered)
        for _ in range(20):
            for each in workers:
                await each.engine.worker.step()
            any_cluster.clock.advance(0.05)
        counts.append(len(barrier.entered) - before)
    assert sum(counts) <= 4 * 10 + 2
    assert all(9 <= each <= 12 for each in counts), counts


async def test_a_dead_worker_gives_its_slots_back(any_cluster: Cluster) -> None:
    first, second = Barrier(), Barrier()
    (dying, *_) = await three_workers(any_cluster, first, in_flight=3)
    await dying.app.deliver_many([("report", n) for n in range(6)])
    assert await dying.tick() == 3
    await dying.kill()
    app = any_cluster.app(lease=30)
    app.handler("report", in_flight=3)(second.handle)
    process = await any_cluster.start_worker(app)
    if any_cluster.url.startswith("postgres"):
        assert await process.tick() == 0, "the dead worker may still run them"
        any_cluster.clock.advance(3600)
        await process.engine.worker.recovery.tick()
    second.open.set()
    for _ in range(8):
        await process.engine.worker.step()
        any_cluster.clock.advance(1)
    assert second.most_inside <= 3
    assert {state.state for state in await app.list()} == {"completed"}


class TestDeclaration:
    async def test_the_newest_start_wins_and_running_workers_obey(
        self, any_cluster: Cluster
    ) -> None:
        barrier = Barrier()
        (old, *_) = await three_workers(any_cluster, barrier, in_flight=2)
        new = any_cluster.app()
        new.handler("report", in_flight=4)(barrier.handle)
        await new.open()
        await old.app.deliver_many([("report", n) for n in range(9)])
        assert await old.tick() == 4
        again = any_cluster.app()
        again.handler("report", in_flight=2)(barrier.handle)
        await again.open()
        assert (await new.limits.get("report")).in_flight == 2, "the last one to start"

    async def test_a_handler_without_limits_in_new_code_removes_them(
        self, any_cluster: Cluster
    ) -> None:
        barrier = Barrier()
        (old, *_) = await three_workers(
            any_cluster, barrier, in_flight=2, limits=duly.per("customer", rate=5)
        )
        new = any_cluster.app()
        new.handler("report")(barrier.handle)
        await new.open()
        with pytest.raises(duly.NotFound, match="no limit 'report'"):
            await new.limits.get("report")
        assert await new.limits.list() == []
        await old.app.deliver_many([("report", n) for n in range(9)])
        assert await old.tick() == 9

    async def test_an_equal_declaration_writes_nothing(self, any_cluster: Cluster) -> None:
        for _ in range(2):
            app = any_cluster.app()
            app.handler("report", rate=5, in_flight=2)(Barrier().handle)
            await app.open()
            any_cluster.clock.advance(60)
        entries = [each.action for each in await app.audit.list()]
        assert entries == ["limits.declared"]

    async def test_a_handler_has_its_limits_in_every_served_namespace(
        self, any_cluster: Cluster
    ) -> None:
        barrier = Barrier()
        (process, *_) = await three_workers(any_cluster, barrier, in_flight=2)
        other = process.app.within("other")
        other.expect("report")
        await other.deliver_many([("report", n) for n in range(5)])
        assert await process.tick() == 2
        assert (await other.limits.get("report")).in_flight == 2


async def test_attempts_from_before_the_limit_are_counted(any_cluster: Cluster) -> None:
    barrier = Barrier()
    (process, *_) = await three_workers(any_cluster, barrier)
    await process.app.deliver_many([("report", n) for n in range(10)])
    assert await process.tick() == 10
    new = any_cluster.app()
    new.handler("report", in_flight=12)(barrier.handle)
    await new.open()
    await process.app.deliver_many([("report", n) for n in range(10)])
    assert await process.tick() == 12
    (number,) = (await new.store.targets.numbers(["report"], create=False)).values()
    await process.engine.worker.admission.tick()
    seen = await new.store.gates.revise(0, [number], lambda seen, _: GateChange(seen.gate))
    assert seen[number][0].elsewhere == 12


async def test_a_handler_without_limits_needs_no_gate(
    any_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier = Barrier()
    (process, *_) = await three_workers(any_cluster, barrier)
    asked: list[Any] = []

    async def revise(*given: Any) -> dict[int, Any]:
        asked.append(given)
        return {}

    app: App = process.app
    monkeypatch.setattr(app.store.gates, "revise", revise)
    await app.deliver_many([("report", n) for n in range(10)])
    assert await process.tick() == 10
    await process.engine.worker.admission.tick()
    assert asked == []
