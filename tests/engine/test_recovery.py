"""Dying and coming back: what dead workers held, lost leases, and deliveries that kill."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import Delivery
from duly.engine.recovery import BATCH
from duly.testing import run_until_idle
from tests.engine.house import Gate, House, Life, only, states
from tests.stores.store_probe import StoreProbe


async def born(house: House, gate: Gate, **settings: Any) -> Life:
    app = house.app(**settings)
    app.handler("work")(gate.handle)
    return await house.born(app)


@pytest.mark.requirement("D4")
async def test_after_a_death_what_was_unfinished_follows_and_nothing_else(
    any_house: House,
) -> None:
    done: list[str] = []

    def app_that_stops_after(many: int) -> duly.App:
        app = any_house.app(concurrency=5)

        @app.handler("work")
        async def work(delivery: Delivery[str]) -> None:
            if len(done) >= many:
                await asyncio.Event().wait()
            done.append(delivery.payload)

        return app

    first = await any_house.born(app_that_stops_after(2))
    await first.app.deliver_many(("work", letter) for letter in "ABCDE")
    await first.tick()
    await first.engine.worker.settler.flush()
    assert await states(first.app) == {"completed": 2, "processing": 3}
    before = set(done)
    await first.kill()
    any_house.clock.advance(timedelta(days=1))
    async with app_that_stops_after(99) as app:
        assert await run_until_idle(app) == 3
        assert await states(app) == {"completed": 5}
    assert sorted(done) == list("ABCDE")
    assert set(done[2:]).isdisjoint(before)


@pytest.mark.requirement("D4")
async def test_a_death_between_handling_and_settling_repeats_the_attempt(any_house: House) -> None:
    gate = Gate()
    gate.open.set()
    first = await born(any_house, gate)
    await first.app.deliver("work", "again")
    await first.tick()
    await first.engine.worker.runner.drain(None)
    assert first.engine.worker.settler.unsettled == 1
    await first.kill()
    any_house.clock.advance(60)
    second = await born(any_house, gate)
    await second.engine.worker.step()
    assert gate.entered == ["again", "again"]
    assert await states(second.app) == {"completed": 1}


async def test_more_than_one_batch_is_taken_back_before_anything_is_claimed(house: House) -> None:
    gate = Gate()
    first = await born(house, gate, concurrency=BATCH + 30)
    await first.app.deliver_many([("work", None)] * (BATCH + 30))
    await first.tick()
    await first.kill()
    second = await born(house, gate)
    assert await states(second.app) == {"pending": BATCH + 30}
    assert second.app.telemetry.counts["Reclaimed"] == 2


@pytest.mark.requirement("D3")
async def test_a_bad_row_does_not_keep_the_rest_from_being_taken_back(any_house: House) -> None:
    gate = Gate()
    first = await born(any_house, gate)
    accepted = [await first.app.deliver("work", number) for number in range(3)]
    await first.tick()
    probe = StoreProbe(first.app.store, any_house.clock)  # type: ignore[arg-type]
    await probe.sql(f"update duly.deliveries set retry = '{{' where id = '{accepted[0].id}'")
    await probe.sql(f"delete from duly.deliveries where id = '{accepted[1].id}'")
    await first.kill()
    any_house.clock.advance(60)
    second = await born(any_house, gate)
    gate.open.set()
    await second.engine.worker.step()
    assert await states(second.app) == {"completed": 2}
    assert gate.entered[3:] in ([0, 2], [2, 0])


@pytest.mark.requirement("D7")
async def test_a_live_worker_keeps_what_it_holds(any_house: House) -> None:
    gate = Gate()
    life = await born(any_house, gate, lease=12)
    await life.app.deliver("work")
    await life.tick()
    for _ in range(4):
        any_house.clock.advance(10)
        await life.app.store.workers.beat(life.engine.worker.membership.worker)
        await life.engine.worker.recovery.tick()
    assert (await only(life.app)).state == "processing"
    any_house.clock.advance(13)
    assert await life.app.store.workers.declare_dead()
    await life.engine.worker.recovery.take_back()
    assert (await only(life.app)).state == "pending"


@pytest.mark.requirement("D7")
async def test_a_worker_never_buries_itself_whatever_its_clock_does(any_house: House) -> None:
    life = await born(any_house, Gate(), lease=12)
    await life.app.deliver("work")
    await life.tick()
    any_house.clock.advance(3600)
    await life.engine.worker.recovery.tick()
    lease = life.engine.worker.membership.lease
    lease.renew(any_house.clock.monotonic())
    await life.engine.worker.recovery.tick()
    assert (await only(life.app)).state == "processing"
    assert await life.app.store.workers.beat(lease.worker)


@pytest.mark.requirement("D7")
async def test_a_lost_lease_abandons_what_runs_and_a_new_worker_is_born(any_house: House) -> None:
    gate = Gate()
    life = await born(any_house, gate, lease=12)
    await life.app.deliver("work", "twice")
    await life.tick()
    old = life.engine.worker.membership.worker
    any_house.clock.advance(13)
    assert await life.app.store.workers.declare_dead() == [old]
    gate.open.set()
    stepped = await life.engine.worker.step()
    assert stepped == 1
    assert life.engine.worker.membership.worker > old
    assert life.app.telemetry.counts["LeaseWasLost"] == 1
    assert gate.entered == ["twice", "twice"]
    booked = await only(life.app)
    assert (booked.state, booked.attempt) == ("completed", 1)
    assert booked.worker == life.engine.worker.membership.worker
    assert [each.outcome for each in await life.app.deliveries.history(booked.id)] == [
        "released",
        "completed",
    ]


@pytest.mark.requirement("D7")
async def test_the_write_of_a_zombie_changes_nothing_and_is_counted(any_house: House) -> None:
    gate = Gate()
    zombie = await born(any_house, gate, lease=12)
    await zombie.app.deliver("work", "x")
    await zombie.tick()
    any_house.clock.advance(13)
    assert await zombie.app.store.workers.declare_dead()
    await zombie.engine.worker.recovery.take_back()
    assert (await only(zombie.app)).state == "pending"
    gate.open.set()
    await zombie.finish()
    booked = await only(zombie.app)
    assert (booked.state, booked.attempt) == ("pending", 0)
    counts = zombie.app.telemetry.counts
    assert (counts["refused"], counts["SettleRefused"], counts["completed"]) == (1, 1, 0)


@pytest.mark.requirement("F3")
async def test_a_suspect_runs_alone(any_house: House) -> None:
    gate = Gate()
    life = await born(any_house, gate, concurrency=10)
    suspect = await life.app.deliver("work", "suspect")
    await suspected(life, suspect.id)
    await life.app.deliver_many([("work", "innocent")] * 5)
    for _ in range(3):
        assert await life.tick() == 1
    assert gate.entered == ["suspect"]
    assert life.app.telemetry.counts["SuspectRuns"] == 1
    gate.open.set()
    await life.finish()
    gate.open.clear()
    assert await life.tick() == 5
    assert (await life.app.get(suspect.id)).state == "completed"


@pytest.mark.requirement("F3")
async def test_a_suspect_waits_until_nothing_runs_beside_it(house: House) -> None:
    gate = Gate()
    life = await born(house, gate, concurrency=10)
    await life.app.deliver("work", "innocent")
    await life.tick()
    suspect = await life.app.deliver("work", "suspect")
    await suspected(life, suspect.id)
    await life.tick()
    assert gate.entered == ["innocent"]
    gate.open.set()
    await life.finish()
    gate.open.clear()
    await life.tick()
    assert gate.entered == ["innocent", "suspect"]


@pytest.mark.requirement("F3")
async def test_suspects_and_ordinary_work_take_turns(house: House) -> None:
    gate = Gate()
    gate.open.set()
    life = await born(house, gate, concurrency=1)
    for _ in range(4):
        await suspected(life, (await life.app.deliver("work", "suspect")).id)
    await life.app.deliver_many([("work", "innocent")] * 4)
    while await life.engine.worker.step():
        pass
    assert len(gate.entered) == 8
    assert "innocent" in gate.entered[:3]
    assert "suspect" in gate.entered[:3]


async def suspected(life: Life, id: str) -> None:
    """Two workers died with it."""
    probe = StoreProbe(life.app.store, life.app.clock)  # type: ignore[arg-type]
    place = probe.agenda_id(id)
    await probe.sql(f"update duly.agenda set crashes = 2, priority = 0 where delivery = {place}")


@pytest.mark.requirement("F3")
async def test_a_delivery_that_kills_its_worker_is_found_and_the_innocent_are_spared(
    any_house: House,
) -> None:
    done: list[tuple[Any, int]] = []

    def deadly_app() -> duly.App:
        app = any_house.app(lease=12)

        @app.handler("work", retry=duly.delays(*[0] * 9))
        async def work(delivery: Delivery[Any]) -> None:
            if delivery.payload == "killer":
                await asyncio.Event().wait()
            done.append((delivery.payload, delivery.attempt))

        return app

    life = await any_house.born(deadly_app())
    await life.app.deliver_many([("work", "killer"), *(("work", n) for n in range(4))])
    deaths = 0
    while await dies(life):
        deaths += 1
        await life.kill()
        any_house.clock.advance(13)
        life = await any_house.born(deadly_app())
    assert deaths == 5
    assert {number for number, _ in done} == {0, 1, 2, 3}
    assert {attempt for _, attempt in done} == {1}
    (killer,) = await life.app.list(state="dead")
    assert (killer.reason, killer.attempt) == ("poison_message", 3)
    assert await states(life.app) == {"completed": 4, "dead": 1}


async def dies(life: Life) -> bool:
    """Work until the killer runs, which kills before anything is settled, or all is done."""
    while await life.app.list(state="pending"):
        await life.tick()
        held = await life.app.list(state="processing")
        if any(each.payload == "killer" for each in held):
            return True
        await life.finish()
    return False
