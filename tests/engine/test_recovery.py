"""Recovery: deliveries of dead workers, lost leases, and deliveries that crash workers."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import Delivery
from duly.engine.recovery import BATCH
from duly.testing import run_until_idle
from tests.engine.cluster import Barrier, Cluster, WorkerProcess, only_delivery, states
from tests.stores.store_probe import StoreProbe


async def start_worker(cluster: Cluster, barrier: Barrier, **settings: Any) -> WorkerProcess:
    app = cluster.app(**settings)
    app.handler("work")(barrier.handle)
    return await cluster.start_worker(app)


@pytest.mark.requirement("D4")
async def test_after_a_crash_only_unfinished_deliveries_run(
    any_cluster: Cluster,
) -> None:
    done: list[str] = []

    def app_that_stops_after(many: int) -> duly.App:
        app = any_cluster.app(concurrency=5)

        @app.handler("work")
        async def work(delivery: Delivery[str]) -> None:
            if len(done) >= many:
                await asyncio.Event().wait()
            done.append(delivery.payload)

        return app

    first = await any_cluster.start_worker(app_that_stops_after(2))
    await first.app.deliver_many(("work", letter) for letter in "ABCDE")
    await first.tick()
    await first.engine.worker.settler.flush()
    assert await states(first.app) == {"completed": 2, "processing": 3}
    before = set(done)
    await first.kill()
    any_cluster.clock.advance(timedelta(days=1))
    async with app_that_stops_after(99) as app:
        assert await run_until_idle(app) == 3
        assert await states(app) == {"completed": 5}
    assert sorted(done) == list("ABCDE")
    assert set(done[2:]).isdisjoint(before)


@pytest.mark.requirement("D4")
async def test_a_crash_between_handling_and_settling_repeats_the_attempt(
    any_cluster: Cluster,
) -> None:
    barrier = Barrier()
    barrier.open.set()
    first = await start_worker(any_cluster, barrier)
    await first.app.deliver("work", "again")
    await first.tick()
    await first.engine.worker.runner.drain(None)
    assert first.engine.worker.settler.unsettled == 1
    await first.kill()
    any_cluster.clock.advance(60)
    second = await start_worker(any_cluster, barrier)
    await second.engine.worker.step()
    assert barrier.entered == ["again", "again"]
    assert await states(second.app) == {"completed": 1}


async def test_all_batches_are_reclaimed_before_anything_is_claimed(cluster: Cluster) -> None:
    barrier = Barrier()
    first = await start_worker(cluster, barrier, concurrency=BATCH + 30)
    await first.app.deliver_many([("work", None)] * (BATCH + 30))
    await first.tick()
    await first.kill()
    second = await start_worker(cluster, barrier)
    assert await states(second.app) == {"pending": BATCH + 30}
    assert second.app.telemetry.counts["Reclaimed"] == 2


@pytest.mark.requirement("D3")
async def test_an_unreadable_row_does_not_prevent_reclaiming_the_rest(any_cluster: Cluster) -> None:
    barrier = Barrier()
    first = await start_worker(any_cluster, barrier)
    accepted = [await first.app.deliver("work", number) for number in range(3)]
    await first.tick()
    probe = StoreProbe(first.app.store, any_cluster.clock)  # type: ignore[arg-type]
    await probe.sql(f"update duly.deliveries set retry = '{{' where id = '{accepted[0].id}'")
    await probe.sql(f"delete from duly.deliveries where id = '{accepted[1].id}'")
    await first.kill()
    any_cluster.clock.advance(60)
    second = await start_worker(any_cluster, barrier)
    barrier.open.set()
    await second.engine.worker.step()
    assert await states(second.app) == {"completed": 2}
    assert barrier.entered[3:] in ([0, 2], [2, 0])


@pytest.mark.requirement("D7")
async def test_a_living_worker_keeps_its_deliveries(any_cluster: Cluster) -> None:
    barrier = Barrier()
    process = await start_worker(any_cluster, barrier, lease=12)
    await process.app.deliver("work")
    await process.tick()
    for _ in range(4):
        any_cluster.clock.advance(10)
        await process.app.store.workers.beat(process.engine.worker.membership.worker)
        await process.engine.worker.recovery.tick()
    assert (await only_delivery(process.app)).state == "processing"
    any_cluster.clock.advance(13)
    assert await process.app.store.workers.declare_dead()
    await process.engine.worker.recovery.take_back()
    assert (await only_delivery(process.app)).state == "pending"


@pytest.mark.requirement("D7")
async def test_a_worker_never_declares_itself_dead(any_cluster: Cluster) -> None:
    process = await start_worker(any_cluster, Barrier(), lease=12)
    await process.app.deliver("work")
    await process.tick()
    any_cluster.clock.advance(3600)
    await process.engine.worker.recovery.tick()
    lease = process.engine.worker.membership.lease
    lease.renew(any_cluster.clock.monotonic())
    await process.engine.worker.recovery.tick()
    assert (await only_delivery(process.app)).state == "processing"
    assert await process.app.store.workers.beat(lease.worker)


@pytest.mark.requirement("D7")
async def test_a_lost_lease_cancels_handlers_and_registers_a_new_worker(
    any_cluster: Cluster,
) -> None:
    barrier = Barrier()
    process = await start_worker(any_cluster, barrier, lease=12)
    await process.app.deliver("work", "twice")
    await process.tick()
    old = process.engine.worker.membership.worker
    any_cluster.clock.advance(13)
    assert await process.app.store.workers.declare_dead() == [old]
    barrier.open.set()
    stepped = await process.engine.worker.step()
    assert stepped == 1
    assert process.engine.worker.membership.worker > old
    assert process.app.telemetry.counts["LeaseWasLost"] == 1
    assert barrier.entered == ["twice", "twice"]
    delivery = await only_delivery(process.app)
    assert (delivery.state, delivery.attempt) == ("completed", 1)
    assert delivery.worker == process.engine.worker.membership.worker
    assert [each.outcome for each in await process.app.deliveries.history(delivery.id)] == [
        "released",
        "completed",
    ]


@pytest.mark.requirement("D7")
async def test_a_late_workers_write_changes_nothing_and_is_counted(any_cluster: Cluster) -> None:
    barrier = Barrier()
    late = await start_worker(any_cluster, barrier, lease=12)
    await late.app.deliver("work", "x")
    await late.tick()
    any_cluster.clock.advance(13)
    assert await late.app.store.workers.declare_dead()
    await late.engine.worker.recovery.take_back()
    assert (await only_delivery(late.app)).state == "pending"
    barrier.open.set()
    await late.finish()
    delivery = await only_delivery(late.app)
    assert (delivery.state, delivery.attempt) == ("pending", 0)
    counts = late.app.telemetry.counts
    assert (counts["refused"], counts["SettleRefused"], counts["completed"]) == (1, 1, 0)


@pytest.mark.requirement("F3")
async def test_a_suspect_runs_alone(any_cluster: Cluster) -> None:
    barrier = Barrier()
    process = await start_worker(any_cluster, barrier, concurrency=10)
    suspect = await process.app.deliver("work", "suspect")
    await make_suspect(process, suspect.id)
    await process.app.deliver_many([("work", "innocent")] * 5)
    for _ in range(3):
        assert await process.tick() == 1
    assert barrier.entered == ["suspect"]
    assert process.app.telemetry.counts["SuspectRuns"] == 1
    barrier.open.set()
    await process.finish()
    barrier.open.clear()
    assert await process.tick() == 5
    assert (await process.app.get(suspect.id)).state == "completed"


@pytest.mark.requirement("F3")
async def test_a_suspect_waits_until_nothing_else_runs(cluster: Cluster) -> None:
    barrier = Barrier()
    process = await start_worker(cluster, barrier, concurrency=10)
    await process.app.deliver("work", "innocent")
    await process.tick()
    suspect = await process.app.deliver("work", "suspect")
    await make_suspect(process, suspect.id)
    await process.tick()
    assert barrier.entered == ["innocent"]
    barrier.open.set()
    await process.finish()
    barrier.open.clear()
    await process.tick()
    assert barrier.entered == ["innocent", "suspect"]


@pytest.mark.requirement("F3")
async def test_suspects_and_other_deliveries_take_turns(cluster: Cluster) -> None:
    barrier = Barrier()
    barrier.open.set()
    process = await start_worker(cluster, barrier, concurrency=1)
    for _ in range(4):
        await make_suspect(process, (await process.app.deliver("work", "suspect")).id)
    await process.app.deliver_many([("work", "innocent")] * 4)
    while await process.engine.worker.step():
        pass
    assert len(barrier.entered) == 8
    assert "innocent" in barrier.entered[:3]
    assert "suspect" in barrier.entered[:3]


async def make_suspect(process: WorkerProcess, id: str) -> None:
    """Make it look as if two workers had died with it."""
    probe = StoreProbe(process.app.store, process.app.clock)  # type: ignore[arg-type]
    place = probe.agenda_id(id)
    await probe.sql(f"update duly.agenda set crashes = 2, priority = 0 where delivery = {place}")


@pytest.mark.requirement("F3")
async def test_a_delivery_that_kills_its_worker_is_found_without_harming_others(
    any_cluster: Cluster,
) -> None:
    done: list[tuple[Any, int]] = []

    def deadly_app() -> duly.App:
        app = any_cluster.app(lease=12)

        @app.handler("work", retry=duly.delays(*[0] * 9))
        async def work(delivery: Delivery[Any]) -> None:
            if delivery.payload == "killer":
                await asyncio.Event().wait()
            done.append((delivery.payload, delivery.attempt))

        return app

    process = await any_cluster.start_worker(deadly_app())
    await process.app.deliver_many([("work", "killer"), *(("work", n) for n in range(4))])
    deaths = 0
    while await runs_killer(process):
        deaths += 1
        await process.kill()
        any_cluster.clock.advance(13)
        process = await any_cluster.start_worker(deadly_app())
    assert deaths == 5
    assert {number for number, _ in done} == {0, 1, 2, 3}
    assert {attempt for _, attempt in done} == {1}
    (killer,) = await process.app.list(state="dead")
    assert (killer.reason, killer.attempt) == ("poison_message", 3)
    assert await states(process.app) == {"completed": 4, "dead": 1}


async def runs_killer(process: WorkerProcess) -> bool:
    """Work until the killer runs, before anything is settled, or until all is done."""
    while await process.app.list(state="pending"):
        await process.tick()
        held = await process.app.list(state="processing")
        if any(each.payload == "killer" for each in held):
            return True
        await process.finish()
    return False
