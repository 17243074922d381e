"""Claiming for the free slots of one worker, and starting what was claimed."""

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
from tests.engine.cluster import Barrier, Cluster, WorkerProcess, only_delivery, states
from tests.stores.store_probe import StoreProbe


async def test_higher_priorities_run_first(cluster: Cluster) -> None:
    app, order = cluster.app(concurrency=1), []

    @app.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        order.append(delivery.payload)

    async with app:
        for priority in (1, 9, 5, 7):
            await app.deliver("work", priority, priority=priority)
        assert await run_until_idle(app) == 4
    assert order == [9, 7, 5, 1]


async def test_no_priority_starves_behind_another(cluster: Cluster) -> None:
    app, order = cluster.app(concurrency=1), []

    @app.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        order.append(delivery.payload)

    async with app:
        await app.deliver("work", 1, priority=1)
        await app.deliver_many({"target": "work", "payload": 9, "priority": 9} for _ in range(30))
        await run_until_idle(app)
    assert len(order) == 31
    assert order.index(1) <= 12


async def test_no_target_starves_behind_the_backlog_of_another(cluster: Cluster) -> None:
    app, order = cluster.app(concurrency=4), []

    @app.handler("many")
    async def many(delivery: Delivery[Any]) -> None:
        order.append("many")

    @app.handler("few")
    async def few(delivery: Delivery[Any]) -> None:
        order.append("few")

    async with app:
        await app.deliver_many([("many", None)] * 40)
        cluster.clock.advance(1)
        await app.deliver("few")
        cluster.clock.advance(1)
        await run_until_idle(app)
    assert order.index("few") <= 8


@pytest.mark.requirement("D6")
async def test_at_most_the_free_slots_are_claimed(any_cluster: Cluster) -> None:
    app, barrier = any_cluster.app(concurrency=3), Barrier()
    app.handler("work")(barrier.handle)
    process = await any_cluster.start_worker(app)
    await app.deliver_many([("work", None)] * 10)
    for _ in range(3):
        assert await process.tick() == 3
        assert await states(app) == {"pending": 7, "processing": 3}
    barrier.open.set()
    await process.finish()
    barrier.open.clear()
    assert await process.tick() == 3
    assert await states(app) == {"pending": 4, "processing": 3, "completed": 3}
    assert barrier.most_inside == 3


@pytest.mark.requirement("D5")
async def test_unwritten_outcomes_stop_claiming(cluster: Cluster) -> None:
    app, barrier = cluster.app(concurrency=3), Barrier()
    barrier.open.set()
    app.handler("work")(barrier.handle)
    process = await cluster.start_worker(app)
    await app.deliver_many([("work", None)] * 40)
    for _ in range(10):
        await process.tick()
        await process.engine.worker.runner.drain(None)
    assert process.engine.worker.settler.unsettled == 6
    assert await states(app) == {"pending": 34, "processing": 6}
    await process.engine.worker.settler.flush()
    barrier.open.clear()
    assert await process.tick() == 3


@pytest.mark.requirement("D5")
async def test_a_backlog_larger_than_the_slots_drains(any_cluster: Cluster) -> None:
    app = any_cluster.app(concurrency=100)
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


class SlowWebhooks(RecordingTransport):
    """A transport for the handler `work`, and for webhooks that never answer."""

    def reaches(self, _: str) -> bool:
        return True

    async def attempt(self, execution: Any) -> Any:
        if execution.target != "work":
            await asyncio.Event().wait()
        return await super().attempt(execution)


async def tick_until_idle(dispatcher: Dispatcher) -> None:
    pause = NOW
    while pause == NOW or dispatcher.wake.is_set():
        dispatcher.wake.clear()
        pause = await dispatcher.tick()


@pytest.mark.requirement("D6")
@pytest.mark.parametrize("statement", ["survey", "claim"])
async def test_a_hint_during_a_claim_for_a_full_target_is_not_lost(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    app, transport = cluster.app(concurrency=4), SlowWebhooks("work")
    app.expect("work")
    await app.open()
    engine = app.engine(transport, stepped=True)
    await engine.prepare()
    agenda, worker = engine.worker.store.agenda, engine.worker
    original = getattr(agenda, statement)

    async def hinted_meanwhile(*given: Any) -> Any:
        found = await original(*given)
        if worker.runner.running or statement == "claim":
            monkeypatch.undo()
            await app.deliver("work", "meanwhile")
            worker.signal.hint()
        return found

    monkeypatch.setattr(agenda, statement, hinted_meanwhile)
    await app.deliver_many([(duly.webhook("https://example.org/slow"), None)] * 9)
    await tick_until_idle(worker.dispatcher)
    if statement == "survey":
        worker.signal.hint()
        await tick_until_idle(worker.dispatcher)
    await WorkerProcess(app, engine).yield_to_tasks()
    assert [each.payload for each in transport.recorded] == [b'"meanwhile"']
    await worker.runner.drain(0)


async def test_deliveries_of_another_process_are_not_claimed_and_shown_as_stuck(
    cluster: Cluster,
) -> None:
    app, barrier = cluster.app(), Barrier()
    app.handler("here")(barrier.handle)
    app.expect("elsewhere")
    process = await cluster.start_worker(app)
    await app.deliver("elsewhere")
    assert await process.tick() == 0
    cluster.clock.advance(1)
    (stuck,) = await app.store.deliveries.stuck(timedelta(minutes=5), 9)
    assert (stuck.target, stuck.state, stuck.attempt) == ("elsewhere", "pending", 0)
    assert stuck.why == "no worker alive has the handler 'elsewhere'"


@pytest.mark.requirement("D2")
async def test_late_deliveries_are_executed_however_late(any_cluster: Cluster) -> None:
    app, barrier = any_cluster.app(), Barrier()
    barrier.open.set()
    app.handler("work")(barrier.handle)
    async with app:
        await app.deliver("work", "punctual")
        for days in (7, 0.001):
            late = any_cluster.clock.now() - timedelta(days=days)
            await app.deliver("work", days, at=late)
        assert await run_until_idle(app) == 3
        assert await states(app) == {"completed": 3}
    assert sorted(barrier.entered, key=str) == [0.001, 7, "punctual"]


@pytest.mark.requirement("D11")
async def test_lateness_beyond_the_grace_is_logged_with_all_fields(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    app, barrier = cluster.app(grace=60), Barrier()
    barrier.open.set()
    app.handler("work")(barrier.handle)
    due_at = cluster.clock.now()
    process = await cluster.start_worker(app)
    late = await app.deliver("work", "late")
    cluster.clock.advance(90)
    await app.deliver("work", "punctual", at=due_at + timedelta(seconds=30))
    with caplog.at_level(logging.WARNING, "duly"):
        assert await process.engine.worker.step() == 2
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
        "worker": process.engine.worker.membership.worker,
        "minutes_late": 1.5,
    }
    assert "1.5 minutes late" in record.message
    delivery = await app.get(late.id)
    assert (delivery.started_at, delivery.finished_at) == (due_at + timedelta(seconds=90),) * 2
    assert delivery.late_by == timedelta(seconds=90)
    assert (app.telemetry.counts["DeliveryLate"], app.telemetry.counts["on_time"]) == (1, 1)


@pytest.mark.requirement("D4")
async def test_a_claim_with_a_lost_response_is_handed_back(any_cluster: Cluster) -> None:
    app, barrier = any_cluster.app(), Barrier()
    barrier.open.set()
    app.handler("work")(barrier.handle)
    process = await any_cluster.start_worker(app)
    await app.deliver("work", "once")
    arm("claim.after=raise@1")
    with pytest.raises(FailpointRaised):
        await process.tick()
    assert (await only_delivery(app)).state == "processing"
    await process.tick()
    await process.finish()
    delivery = await only_delivery(app)
    assert (delivery.state, delivery.attempt) == ("completed", 1)
    assert barrier.entered == ["once"]


@pytest.mark.requirement("D4")
async def test_a_claim_that_arrives_after_it_was_handed_back_is_handed_back_again(
    any_cluster: Cluster,
) -> None:
    app, barrier = any_cluster.app(), Barrier()
    app.handler("work")(barrier.handle)
    process = await any_cluster.start_worker(app)
    accepted = await app.deliver("work")
    probe = StoreProbe(app.store, any_cluster.clock)  # type: ignore[arg-type]
    arm("claim.after=raise@1")
    with pytest.raises(FailpointRaised):
        await process.tick()
    (row,) = await probe.sql("select token from duly.agenda")
    lost = row["token"]
    await app.store.agenda.release(lost)
    any_cluster.clock.advance(1)
    await app.cancel(accepted.id)
    await process.tick()
    second = await app.deliver("work", "later")
    place = probe.agenda_id(second.id)
    await probe.sql(f"update duly.agenda set token = {lost} where delivery = {place}")
    await probe.record_claim(lost)
    any_cluster.clock.advance(1)
    await app.store.workers.beat(process.engine.worker.membership.worker)
    assert await process.tick() == 1
    assert barrier.entered == ["later"]


async def test_a_claim_with_a_lost_response_is_handed_back_at_the_stop(cluster: Cluster) -> None:
    app, barrier = cluster.app(), Barrier()
    app.handler("work")(barrier.handle)
    process = await cluster.start_worker(app)
    await app.deliver("work")
    arm("claim.after=raise@1")
    with pytest.raises(FailpointRaised):
        await process.tick()
    await process.engine.stop()
    delivery = await only_delivery(app)
    assert (delivery.state, delivery.attempt) == ("pending", 0)


@pytest.mark.requirement("D3")
async def test_a_lane_without_its_delivery_is_skipped_and_counted(any_cluster: Cluster) -> None:
    app, barrier = any_cluster.app(), Barrier()
    barrier.open.set()
    app.handler("work")(barrier.handle)
    process = await any_cluster.start_worker(app)
    bad = await app.deliver("work", "bad")
    await app.deliver("work", "good")
    probe = StoreProbe(app.store, any_cluster.clock)  # type: ignore[arg-type]
    await probe.sql(f"delete from duly.deliveries where id = '{bad.id}'")
    await process.engine.worker.step()
    assert barrier.entered == ["good"]
    assert app.telemetry.counts["LaneSkipped"] == 1
    assert await states(app) == {"completed": 1}


@pytest.mark.requirement("D7")
async def test_a_worker_that_missed_its_lease_starts_nothing(cluster: Cluster) -> None:
    app, barrier = cluster.app(lease=12), Barrier()
    app.handler("work")(barrier.handle)
    process = await cluster.start_worker(app)
    await app.deliver("work")
    cluster.clock.advance(12)
    assert await process.tick() == 0
    assert (await only_delivery(app)).state == "pending"


@pytest.mark.requirement("D13")
async def test_a_stop_hands_back_deliveries_that_do_not_end_in_time(cluster: Cluster) -> None:
    app, barrier = cluster.app(drain=0), Barrier()
    app.handler("work")(barrier.handle)
    process = await cluster.start_worker(app)
    await app.deliver("work")
    assert await process.tick() == 1
    await process.engine.stop()
    delivery = await only_delivery(app)
    assert (delivery.state, delivery.attempt) == ("pending", 0)
    assert [each.outcome for each in await app.deliveries.history(delivery.id)] == ["released"]
    (worker,) = await app.store.workers.all()
    assert worker.ended_how == "stopped"
