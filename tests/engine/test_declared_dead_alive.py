"""A worker that was declared dead and returns: its crash is not counted."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import duly
from duly.domain.deliveries.outcomes import Verdict
from duly.engine.execution import delivery_runner as dispatching
from duly.failpoints import arm
from duly.ports import ClaimRequest
from tests.engine.cluster import Barrier, Cluster, WorkerProcess, only_delivery, states
from tests.stores.store_probe import StoreProbe, settlement


async def start_worker(cluster: Cluster, barrier: Barrier, **settings: Any) -> WorkerProcess:
    app = cluster.app(lease=12, **settings)
    app.handler("work", retry=duly.delays(*[0] * 9))(barrier.handle)
    return await cluster.start_worker(app)


async def declare_dead(process: WorkerProcess, cluster: Cluster, *, reclaimed: bool = True) -> None:
    """Silent for longer than its lease, but alive; others reclaim its deliveries."""
    cluster.clock.advance(13)
    assert await process.app.store.workers.declare_dead()
    if reclaimed:
        await process.engine.worker.recovery.take_back()


async def return_alive(process: WorkerProcess) -> None:
    """The worker finds its lease lost."""
    process.engine.worker.membership.lease.lost = True
    await process.engine.worker.lease_monitor.tick()


async def lane(process: WorkerProcess) -> tuple[int, int]:
    """The crashes and the priority of the only lane."""
    probe = StoreProbe(process.app.store, process.app.clock)  # type: ignore[arg-type]
    (row,) = await probe.sql("select crashes, priority from duly.agenda")
    return row["crashes"], row["priority"]


@pytest.mark.requirement("F3", "D7")
async def test_a_returning_worker_undoes_its_counted_crash(
    any_cluster: Cluster,
) -> None:
    process = await start_worker(any_cluster, Barrier())
    await process.app.deliver("work", priority=7)
    for _ in range(2):
        await process.tick()
        await declare_dead(process, any_cluster)
        before = await lane(process)
        await return_alive(process)
        assert (before, await lane(process)) == ((1, 7), (0, 7))
    assert process.app.telemetry.counts["CrashesTakenBack"] == 2
    found = await only_delivery(process.app)
    history = await process.app.deliveries.history(found.id)
    assert [each.outcome for each in history] == ["released", "released"]
    assert "came back" in str(history[0].error)
    assert len({each.worker for each in history}) == 2


@pytest.mark.requirement("F3", "D7")
async def test_no_number_of_false_deaths_makes_a_delivery_poison(any_cluster: Cluster) -> None:
    barrier = Barrier()
    process = await start_worker(any_cluster, barrier)
    await process.app.deliver("work")
    for _ in range(8):
        await process.tick()
        await declare_dead(process, any_cluster)
        await return_alive(process)
    barrier.open.set()
    await process.engine.worker.step()
    found = await only_delivery(process.app)
    assert (found.state, found.attempt, len(barrier.entered)) == ("completed", 1, 9)


@pytest.mark.requirement("F3", "D7")
async def test_a_suspect_gets_its_attempt_back_and_one_crash_less(
    any_cluster: Cluster,
) -> None:
    barrier = Barrier()
    process = await start_worker(any_cluster, barrier)
    await process.app.deliver("work", priority=7)
    for _ in range(2):
        await process.tick()
        await declare_dead(process, any_cluster)
        # As if these two had died: they do not return.
        await process.kill()
        process = await start_worker(any_cluster, barrier)
    assert await lane(process) == (2, 0)
    await process.tick()
    await declare_dead(process, any_cluster)
    assert await lane(process) == (3, 0)
    assert (await only_delivery(process.app)).attempt == 1
    await return_alive(process)
    assert await lane(process) == (2, 0)
    found = await only_delivery(process.app)
    assert (found.attempt, found.reason, found.error) == (0, None, None)
    outcomes = [
        (each.outcome, each.attempt) for each in await process.app.deliveries.history(found.id)
    ]
    assert outcomes == [("reclaimed", 0), ("reclaimed", 0), ("released", 0)]


@pytest.mark.requirement("D7")
async def test_a_worker_that_returns_before_its_lanes_were_reclaimed_releases_them(
    any_cluster: Cluster,
) -> None:
    process = await start_worker(any_cluster, Barrier())
    await process.app.deliver("work")
    await process.tick()
    await declare_dead(process, any_cluster, reclaimed=False)
    await return_alive(process)
    assert (await only_delivery(process.app)).state == "pending"
    assert await lane(process) == (0, 5)
    assert await process.engine.worker.recovery.take_back() == 0
    (entry,) = await process.app.deliveries.history((await only_delivery(process.app)).id)
    assert (entry.outcome, entry.attempt) == ("released", 0)


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("verdict", [Verdict.COMPLETED, Verdict.RETRY, Verdict.RELEASED])
async def test_the_current_holder_is_not_affected(any_cluster: Cluster, verdict: Verdict) -> None:
    process = await start_worker(any_cluster, Barrier())
    await process.app.deliver("work")
    await process.tick()
    await declare_dead(process, any_cluster)
    probe = StoreProbe(process.app.store, any_cluster.clock)  # type: ignore[arg-type]
    (target,) = (await process.app.store.targets.numbers(["work"], create=False)).values()
    claimed = await other_claim(probe, target)
    await return_alive(process)
    assert (await only_delivery(process.app)).state == "processing"
    settled = settlement(claimed, verdict, any_cluster.clock.now(), crashes=claimed.crashes)
    assert await probe.settle(settled)
    if verdict is Verdict.COMPLETED:
        assert await states(process.app) == {"completed": 1}
    elif verdict is Verdict.RELEASED:
        assert await lane(process) == (0, 5), "releasing does not restore the crash"


async def other_claim(probe: StoreProbe, target: int) -> Any:
    worker = await probe.worker()
    requests = [ClaimRequest(5, target, probe.clock.now().replace(year=2000), 9)]
    (claimed,) = await probe.claim(worker, 9, requests)
    assert claimed.crashes == 1
    return claimed


@pytest.mark.requirement("F3")
async def test_a_crash_after_a_later_attempt_is_not_undone(
    any_cluster: Cluster,
) -> None:
    process = await start_worker(any_cluster, Barrier())
    await process.app.deliver("work")
    await process.tick()
    await declare_dead(process, any_cluster)
    probe = StoreProbe(process.app.store, any_cluster.clock)  # type: ignore[arg-type]
    (target,) = (await process.app.store.targets.numbers(["work"], create=False)).values()
    claimed = await other_claim(probe, target)
    any_cluster.clock.advance(1)
    await probe.settle(settlement(claimed, Verdict.RETRY, any_cluster.clock.now(), wait=0.0))
    any_cluster.clock.advance(5)
    victim = await probe.worker()
    requests = [ClaimRequest(5, target, any_cluster.clock.now().replace(year=2000), 9)]
    (second,) = await probe.claim(victim, 9, requests)
    reclaimed = settlement(second, Verdict.RECLAIMED, any_cluster.clock.now(), crashes=1)
    await probe.settle(reclaimed)
    await return_alive(process)
    assert await lane(process) == (1, 5)


@pytest.mark.requirement("F3", "D7")
async def test_the_crash_of_a_streams_head_is_undone_too(any_cluster: Cluster) -> None:
    process = await start_worker(any_cluster, Barrier())
    for number in range(3):
        await process.app.deliver("work", number, stream="s", priority=7)
    await process.tick()
    await declare_dead(process, any_cluster)
    assert await lane(process) == (1, 7)
    await return_alive(process)
    assert await lane(process) == (0, 7)


@pytest.mark.requirement("D7")
async def test_the_crash_of_a_claim_with_a_lost_response_is_undone_too(
    any_cluster: Cluster,
) -> None:
    process = await start_worker(any_cluster, Barrier())
    await process.app.deliver("work")
    arm("claim.after=raise")
    process.engine.worker.signal.hint()
    with pytest.raises(Exception, match=r"claim\.after"):
        await process.engine.worker.dispatcher.tick()
    arm("")
    await declare_dead(process, any_cluster)
    assert await lane(process) == (1, 5)
    await return_alive(process)
    assert await lane(process) == (0, 5)


@pytest.mark.requirement("D7")
async def test_a_crash_is_undone_when_the_store_is_available_again(any_cluster: Cluster) -> None:
    process = await start_worker(any_cluster, Barrier())
    await process.app.deliver("work")
    await process.tick()
    await declare_dead(process, any_cluster)
    workers = process.engine.worker.store.workers
    undo_crashes, calls = workers.undo_crashes, 0

    async def unavailable_at_first(worker: int, suspect_after: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise duly.StoreUnavailable("away")
        return await undo_crashes(worker, suspect_after)

    workers.undo_crashes = unavailable_at_first  # type: ignore[method-assign]
    with pytest.raises(duly.StoreUnavailable):
        await return_alive(process)
    await process.engine.worker.lease_monitor.tick()
    assert await lane(process) == (0, 5)
    assert process.app.telemetry.counts["LeaseWasLost"] == 1
    await process.engine.worker.lease_monitor.tick()
    assert calls == 2


@pytest.mark.requirement("P5", "D7")
async def test_an_earlier_attempt_that_runs_on_does_not_disturb_the_next_one(
    any_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatching, "CANCEL_SECONDS", (0.02,))
    app = any_cluster.app(lease=12)
    leave = [threading.Event(), threading.Event()]
    runs: list[int] = []

    @app.handler("work", retry=duly.delays(*[0] * 9))
    def work(delivery: duly.Delivery) -> int:
        runs.append(len(runs))
        number = len(runs) - 1
        assert leave[number].wait(30)
        return number

    process = await any_cluster.start_worker(app)
    handle = await app.deliver("work")
    await process.tick()
    await declare_dead(process, any_cluster)
    await return_alive(process)
    await process.tick()
    await until(lambda: len(runs) == 2)
    leave[0].set()
    await until(lambda: process.engine.worker.runner.running == 1)
    leave[1].set()
    await process.finish()

    found = await app.deliveries.detail(handle.id)
    assert (found.state, found.result) == ("completed", 1)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.tasks.sleep(0)
