"""Claiming for the free slots of one worker, and starting what came."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import Delivery
from duly.engine.dispatch.dispatcher import Dispatcher
from duly.engine.loops import NOW
from duly.failpoints import FailpointRaised, arm
from duly.testing import RecordingTransport, run_until_idle
from tests.engine.house import Gate, House, Life, only, states
from tests.stores.store_probe import StoreProbe


async def test_higher_priorities_run_first(house: House) -> None:
    app, order = house.app(concurrency=1), []

    @app.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        order.append(delivery.payload)

    async with app:
        for priority in (1, 9, 5, 7):
            await app.deliver("work", priority, priority=priority)
        assert await run_until_idle(app) == 4
    assert order == [9, 7, 5, 1]


async def test_no_priority_starves_behind_another(house: House) -> None:
    app, order = house.app(concurrency=1), []

    @app.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        order.append(delivery.payload)

    async with app:
        await app.deliver("work", 1, priority=1)
        await app.deliver_many({"target": "work", "payload": 9, "priority": 9} for _ in range(30))
        await run_until_idle(app)
    assert len(order) == 31
    assert order.index(1) <= 12


async def test_no_target_starves_behind_the_backlog_of_another(house: House) -> None:
    app, order = house.app(concurrency=4), []

    @app.handler("many")
    async def many(delivery: Delivery[Any]) -> None:
        order.append("many")

    @app.handler("few")
    async def few(delivery: Delivery[Any]) -> None:
        order.append("few")

    async with app:
        await app.deliver_many([("many", None)] * 40)
        house.clock.advance(1)
        await app.deliver("few")
        house.clock.advance(1)
        await run_until_idle(app)
    assert order.index("few") <= 8


@pytest.mark.requirement("D6")
async def test_at_most_the_free_slots_are_claimed(any_house: House) -> None:
    app, gate = any_house.app(concurrency=3), Gate()
    app.handler("work")(gate.handle)
    life = await any_house.born(app)
    await app.deliver_many([("work", None)] * 10)
    for _ in range(3):
        assert await life.tick() == 3
        assert await states(app) == {"pending": 7, "processing": 3}
    gate.open.set()
    await life.finish()
    gate.open.clear()
    assert await life.tick() == 3
    assert await states(app) == {"pending": 4, "processing": 3, "completed": 3}
    assert gate.most_inside == 3


@pytest.mark.requirement("D5")
async def test_outcomes_that_cannot_be_written_stop_the_claiming(house: House) -> None:
    app, gate = house.app(concurrency=3), Gate()
    gate.open.set()
    app.handler("work")(gate.handle)
    life = await house.born(app)
    await app.deliver_many([("work", None)] * 40)
    for _ in range(10):
        await life.tick()
        await life.engine.worker.runner.drain(None)
    assert life.engine.worker.settler.unsettled == 6
    assert await states(app) == {"pending": 34, "processing": 6}
    await life.engine.worker.settler.flush()
    gate.open.clear()
    assert await life.tick() == 3


@pytest.mark.requirement("D5")
async def test_a_backlog_larger_than_the_slots_drains(any_house: House) -> None:
    app = any_house.app(concurrency=100)
    seen: list[int] = []
    running = most = 0

    @app.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.tasks.sleep(0)
        seen.append(delivery.payload)
        running -= 1

    async with app:
        await app.deliver_many(("work", number) for number in range(500))
        assert await run_until_idle(app) == 500
        assert await states(app) == {"completed": 500}
    assert sorted(seen) == list(range(500))
    assert 10 < most <= 100


class SlowOutside(RecordingTransport):
    """A transport for the handler `work` and for a receiver that never answers."""

    def reaches(self, _: str) -> bool:
        return True

    async def attempt(self, execution: Any) -> Any:
        if execution.target != "work":
            await asyncio.Event().wait()
        return await super().attempt(execution)


async def tick_until_it_sleeps(dispatcher: Dispatcher) -> None:
    pause = NOW
    while pause == NOW or dispatcher.wake.is_set():
        dispatcher.wake.clear()
        pause = await dispatcher.tick()


@pytest.mark.requirement("D6")
@pytest.mark.parametrize("statement", ["survey", "claim"])
async def test_a_hint_is_heeded_that_comes_while_a_full_target_is_looked_at(
    house: House, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    app, transport = house.app(concurrency=4), SlowOutside("work")
    app.expect("work")
    await app.open()
    engine = app.engine(transport, stepped=True)
    await engine.prepare()
    agenda, worker = engine.worker.store.agenda, engine.worker
    ask = getattr(agenda, statement)

    async def hinted_meanwhile(*given: Any) -> Any:
        found = await ask(*given)
        if worker.runner.running or statement == "claim":
            monkeypatch.undo()
            await app.deliver("work", "meanwhile")
            worker.signal.hint()
        return found

    monkeypatch.setattr(agenda, statement, hinted_meanwhile)
    await app.deliver_many([(duly.webhook("https://example.org/slow"), None)] * 9)
    await tick_until_it_sleeps(worker.dispatcher)
    if statement == "survey":
        worker.signal.hint()
        await tick_until_it_sleeps(worker.dispatcher)
    await Life(app, engine).breathe()
    assert [each.payload for each in transport.recorded] == [b'"meanwhile"']
    await worker.runner.drain(0)


async def test_what_another_process_serves_is_left_alone_and_seen_as_stuck(house: House) -> None:
    app, gate = house.app(), Gate()
    app.handler("here")(gate.handle)
    app.expect("elsewhere")
    life = await house.born(app)
    await app.deliver("elsewhere")
    assert await life.tick() == 0
    house.clock.advance(1)
    (stuck,) = await app.store.deliveries.stuck(timedelta(minutes=5), 9)
    assert (stuck.target, stuck.state, stuck.attempt) == ("elsewhere", "pending", 0)
    assert stuck.why == "no worker alive has the handler 'elsewhere'"


@pytest.mark.requirement("D2")
async def test_a_minute_late_and_a_week_late_take_the_same_path(any_house: House) -> None:
    app, gate = any_house.app(), Gate()
    gate.open.set()
    app.handler("work")(gate.handle)
    async with app:
        await app.deliver("work", "punctual")
        for days in (7, 0.001):
            late = any_house.clock.now() - timedelta(days=days)
            await app.deliver("work", days, at=late)
        assert await run_until_idle(app) == 3
        assert await states(app) == {"completed": 3}
    assert sorted(gate.entered, key=str) == [0.001, 7, "punctual"]


@pytest.mark.requirement("D11")
async def test_lateness_beyond_the_grace_is_a_warning_with_all_its_facts(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    app, gate = house.app(grace=60), Gate()
    gate.open.set()
    app.handler("work")(gate.handle)
    due_at = house.clock.now()
    life = await house.born(app)
    late = await app.deliver("work", "late")
    house.clock.advance(90)
    await app.deliver("work", "punctual", at=due_at + timedelta(seconds=30))
    with caplog.at_level(logging.WARNING, "duly"):
        assert await life.engine.worker.step() == 2
    (record,) = [each for each in caplog.records if each.event == "DeliveryLate"]  # type: ignore[attr-defined]
    assert record.levelno == logging.WARNING
    assert record.facts == {  # type: ignore[attr-defined]
        "delivery": late.id,
        "target": "work",
        "due_at": due_at,
        "started_at": due_at + timedelta(seconds=90),
        "schedule": None,
        "stream": None,
        "attempt": 1,
        "worker": life.engine.worker.membership.worker,
        "minutes_late": 1.5,
    }
    assert "1.5 minutes late" in record.message
    booked = await app.get(late.id)
    assert (booked.started_at, booked.finished_at) == (due_at + timedelta(seconds=90),) * 2
    assert booked.late_by == timedelta(seconds=90)
    assert (app.telemetry.counts["DeliveryLate"], app.telemetry.counts["on_time"]) == (1, 1)


@pytest.mark.requirement("D4")
async def test_a_claim_whose_reply_was_lost_is_handed_back(any_house: House) -> None:
    app, gate = any_house.app(), Gate()
    gate.open.set()
    app.handler("work")(gate.handle)
    life = await any_house.born(app)
    await app.deliver("work", "once")
    arm("claim.after=raise@1")
    with pytest.raises(FailpointRaised):
        await life.tick()
    assert (await only(app)).state == "processing"
    await life.tick()
    await life.finish()
    booked = await only(app)
    assert (booked.state, booked.attempt) == ("completed", 1)
    assert gate.entered == ["once"]


@pytest.mark.requirement("D4")
async def test_a_claim_that_lands_after_it_was_handed_back_is_handed_back_again(
    any_house: House,
) -> None:
    app, gate = any_house.app(), Gate()
    app.handler("work")(gate.handle)
    life = await any_house.born(app)
    accepted = await app.deliver("work")
    probe = StoreProbe(app.store, any_house.clock)  # type: ignore[arg-type]
    arm("claim.after=raise@1")
    with pytest.raises(FailpointRaised):
        await life.tick()
    (row,) = await probe.sql("select token from duly.agenda")
    lost = row["token"]
    await app.store.agenda.release(lost)
    any_house.clock.advance(1)
    await app.cancel(accepted.id)
    await life.tick()
    later = await app.deliver("work", "later")
    place = probe.agenda_id(later.id)
    await probe.sql(f"update duly.agenda set token = {lost} where delivery = {place}")
    await probe.record_claim(lost)
    any_house.clock.advance(1)
    await app.store.workers.beat(life.engine.worker.membership.worker)
    assert await life.tick() == 1
    assert gate.entered == ["later"]


async def test_a_claim_whose_reply_was_lost_at_the_end_is_handed_back_too(house: House) -> None:
    app, gate = house.app(), Gate()
    app.handler("work")(gate.handle)
    life = await house.born(app)
    await app.deliver("work")
    arm("claim.after=raise@1")
    with pytest.raises(FailpointRaised):
        await life.tick()
    await life.engine.stop()
    booked = await only(app)
    assert (booked.state, booked.attempt) == ("pending", 0)


@pytest.mark.requirement("D3")
async def test_a_lane_without_its_delivery_is_passed_over_and_counted(any_house: House) -> None:
    app, gate = any_house.app(), Gate()
    gate.open.set()
    app.handler("work")(gate.handle)
    life = await any_house.born(app)
    bad = await app.deliver("work", "bad")
    await app.deliver("work", "good")
    probe = StoreProbe(app.store, any_house.clock)  # type: ignore[arg-type]
    await probe.sql(f"delete from duly.deliveries where id = '{bad.id}'")
    await life.engine.worker.step()
    assert gate.entered == ["good"]
    assert app.telemetry.counts["LaneSkipped"] == 1
    assert await states(app) == {"completed": 1}


@pytest.mark.requirement("D7")
async def test_a_worker_that_missed_its_lease_starts_nothing(house: House) -> None:
    app, gate = house.app(lease=12), Gate()
    app.handler("work")(gate.handle)
    life = await house.born(app)
    await app.deliver("work")
    house.clock.advance(12)
    assert await life.tick() == 0
    assert (await only(app)).state == "pending"


@pytest.mark.requirement("D13")
async def test_a_stop_hands_back_what_does_not_end_in_time(house: House) -> None:
    app, gate = house.app(drain=0), Gate()
    app.handler("work")(gate.handle)
    life = await house.born(app)
    await app.deliver("work")
    assert await life.tick() == 1
    await life.engine.stop()
    booked = await only(app)
    assert (booked.state, booked.attempt) == ("pending", 0)
    assert [each.outcome for each in await app.deliveries.history(booked.id)] == ["released"]
    (worker,) = await app.store.workers.all()
    assert worker.ended_how == "stopped"
