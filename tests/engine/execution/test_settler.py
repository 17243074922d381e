"""Writing outcomes in batches, and distinguishing a lost response from a refusal."""

import asyncio

import pytest

from duly import Delivery
from duly.failpoints import FailpointRaised, arm
from tests.engine.cluster import Barrier, Cluster, WorkerProcess, only_delivery, states
from tests.stores.store_probe import StoreProbe


async def finished_but_unsettled(cluster: Cluster, many: int = 1) -> WorkerProcess:
    app, barrier = cluster.app(), Barrier()
    barrier.open.set()
    app.handler("work")(barrier.handle)
    process = await cluster.start_worker(app)
    await app.deliver_many([("work", None)] * many)
    await process.tick()
    await process.engine.worker.runner.drain(None)
    assert process.engine.worker.settler.unsettled == many
    return process


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("action", ["raise", "drop"])
async def test_an_outcome_with_a_lost_response_is_not_counted_as_refused(
    any_cluster: Cluster, action: str
) -> None:
    process = await finished_but_unsettled(any_cluster, 3)
    arm(f"settle.after={action}@1")
    with pytest.raises((FailpointRaised, ConnectionError)):
        await process.engine.worker.settler.tick()
    assert await states(process.app) == {"completed": 3}
    assert process.engine.worker.settler.unsettled == 3
    await process.engine.worker.settler.flush()
    counts = process.app.telemetry.counts
    assert (counts["completed"], counts["refused"], counts["SettleRefused"]) == (3, 0, 0)
    assert process.engine.worker.settler.unsettled == 0


async def test_an_outcome_that_was_not_written_is_written_again(any_cluster: Cluster) -> None:
    process = await finished_but_unsettled(any_cluster)
    arm("settle.before=raise@1")
    with pytest.raises(FailpointRaised):
        await process.engine.worker.settler.tick()
    assert (await only_delivery(process.app)).state == "processing"
    await process.engine.worker.settler.flush()
    assert (await only_delivery(process.app)).state == "completed"
    assert process.app.telemetry.counts["completed"] == 1


async def test_collected_outcomes_are_written_in_one_batch(cluster: Cluster) -> None:
    process = await finished_but_unsettled(cluster, 40)
    await process.engine.worker.settler.tick()
    assert await states(process.app) == {"completed": 40}
    assert process.app.telemetry.counts["batches"] == 1


async def test_outcomes_of_handlers_that_are_about_to_end_join_the_batch(cluster: Cluster) -> None:
    app, barriers = cluster.app(), [Barrier() for _ in range(5)]

    @app.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        await barriers[delivery.payload].handle(delivery)

    process = await cluster.start_worker(app)
    await app.deliver_many(("work", each) for each in range(5))
    assert await process.tick() == 5
    settling = asyncio.create_task(process.engine.worker.settler.tick())
    for barrier in barriers:
        # Each ends one iteration of the event loop after the previous one.
        barrier.open.set()
        await asyncio.tasks.sleep(0)
        if settling.done():
            settling = asyncio.create_task(process.engine.worker.settler.tick())
    await settling
    await process.engine.worker.settler.flush()
    assert (app.telemetry.counts["completed"], app.telemetry.counts["batches"]) == (5, 1)


@pytest.mark.requirement("D7")
async def test_a_later_refusal_is_counted_after_a_lost_response(cluster: Cluster) -> None:
    process = await finished_but_unsettled(cluster)
    (settlement,) = process.engine.worker.settler._waiting
    arm("settle.after=raise@1")
    with pytest.raises(FailpointRaised):
        await process.engine.worker.settler.tick()
    await process.engine.worker.settler.flush()
    process.engine.worker.settler.put(settlement)
    await process.engine.worker.settler.flush()
    assert process.app.telemetry.counts["refused"] == 1


@pytest.mark.requirement("D3", "D8")
async def test_an_outcome_that_the_store_refuses_does_not_block_others(
    any_cluster: Cluster,
) -> None:
    process = await finished_but_unsettled(any_cluster, 3)
    bad = process.engine.worker.settler._waiting[1]
    probe = StoreProbe(process.app.store, any_cluster.clock)  # type: ignore[arg-type]
    await probe.sql(f"update duly.deliveries set state = 'cancelled' where id = '{bad.delivery}'")
    await asyncio.wait_for(process.engine.worker.settler.flush(), 20)
    assert (await probe.ledger(bad.delivery))["state"] == "cancelled"
    assert len(await process.app.list(state="completed")) == 2
    counts = process.app.telemetry.counts
    assert (counts["LaneSkipped"], counts["completed"]) == (1, 2)
    assert process.engine.worker.settler.unsettled == 0


async def test_unsettled_outcomes_are_dropped_after_a_lost_lease(cluster: Cluster) -> None:
    process = await finished_but_unsettled(cluster, 2)
    process.engine.worker.settler.forget()
    await process.engine.worker.settler.flush()
    assert await states(process.app) == {"processing": 2}
