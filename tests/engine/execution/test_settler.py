"""Writing outcomes in batches, and telling a lost answer from a refusal."""

import asyncio

import pytest

from duly import Delivery
from duly.failpoints import FailpointRaised, arm
from tests.engine.house import Gate, House, Life, only, states
from tests.stores.store_probe import StoreProbe


async def finished_but_unsettled(house: House, many: int = 1) -> Life:
    app, gate = house.app(), Gate()
    gate.open.set()
    app.handler("work")(gate.handle)
    life = await house.born(app)
    await app.deliver_many([("work", None)] * many)
    await life.tick()
    await life.engine.worker.runner.drain(None)
    assert life.engine.worker.settler.unsettled == many
    return life


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("action", ["raise", "drop"])
async def test_an_outcome_whose_answer_was_lost_is_not_counted_as_refused(
    any_house: House, action: str
) -> None:
    life = await finished_but_unsettled(any_house, 3)
    arm(f"settle.after={action}@1")
    with pytest.raises((FailpointRaised, ConnectionError)):
        await life.engine.worker.settler.tick()
    assert await states(life.app) == {"completed": 3}
    assert life.engine.worker.settler.unsettled == 3
    await life.engine.worker.settler.flush()
    counts = life.app.telemetry.counts
    assert (counts["completed"], counts["refused"], counts["SettleRefused"]) == (3, 0, 0)
    assert life.engine.worker.settler.unsettled == 0


async def test_an_outcome_that_was_not_written_is_written_again(any_house: House) -> None:
    life = await finished_but_unsettled(any_house)
    arm("settle.before=raise@1")
    with pytest.raises(FailpointRaised):
        await life.engine.worker.settler.tick()
    assert (await only(life.app)).state == "processing"
    await life.engine.worker.settler.flush()
    assert (await only(life.app)).state == "completed"
    assert life.app.telemetry.counts["completed"] == 1


async def test_what_gathered_is_written_in_one_batch(house: House) -> None:
    life = await finished_but_unsettled(house, 40)
    await life.engine.worker.settler.tick()
    assert await states(life.app) == {"completed": 40}
    assert life.app.telemetry.counts["batches"] == 1


async def test_whoever_is_about_to_end_joins_the_batch(house: House) -> None:
    app, gates = house.app(), [Gate() for _ in range(5)]

    @app.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        await gates[delivery.payload].handle(delivery)

    life = await house.born(app)
    await app.deliver_many(("work", each) for each in range(5))
    assert await life.tick() == 5
    settling = asyncio.create_task(life.engine.worker.settler.tick())
    for gate in gates:
        # Each ends one turn of the event loop after the one before it.
        gate.open.set()
        await asyncio.tasks.sleep(0)
        if settling.done():
            settling = asyncio.create_task(life.engine.worker.settler.tick())
    await settling
    await life.engine.worker.settler.flush()
    assert (app.telemetry.counts["completed"], app.telemetry.counts["batches"]) == (5, 1)


@pytest.mark.requirement("D7")
async def test_doubt_does_not_outlast_the_batch_it_was_about(house: House) -> None:
    life = await finished_but_unsettled(house)
    (settlement,) = life.engine.worker.settler._waiting
    arm("settle.after=raise@1")
    with pytest.raises(FailpointRaised):
        await life.engine.worker.settler.tick()
    await life.engine.worker.settler.flush()
    life.engine.worker.settler.put(settlement)
    await life.engine.worker.settler.flush()
    assert life.app.telemetry.counts["refused"] == 1


@pytest.mark.requirement("D3", "D8")
async def test_an_outcome_that_the_store_forbids_holds_up_no_other(any_house: House) -> None:
    life = await finished_but_unsettled(any_house, 3)
    bad = life.engine.worker.settler._waiting[1]
    probe = StoreProbe(life.app.store, any_house.clock)  # type: ignore[arg-type]
    await probe.sql(f"update duly.deliveries set state = 'cancelled' where id = '{bad.delivery}'")
    await asyncio.wait_for(life.engine.worker.settler.flush(), 20)
    assert (await probe.ledger(bad.delivery))["state"] == "cancelled"
    assert len(await life.app.list(state="completed")) == 2
    counts = life.app.telemetry.counts
    assert (counts["LaneSkipped"], counts["completed"]) == (1, 2)
    assert life.engine.worker.settler.unsettled == 0


async def test_what_a_lost_lease_left_waiting_is_forgotten(house: House) -> None:
    life = await finished_but_unsettled(house, 2)
    life.engine.worker.settler.forget()
    await life.engine.worker.settler.flush()
    assert await states(life.app) == {"processing": 2}
