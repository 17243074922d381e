"""Pruning finished deliveries, and sweeping: repairing inconsistent rows."""

from datetime import timedelta

import pytest

from duly.domain.deliveries.identifiers import token
from duly.domain.deliveries.outcomes import Verdict
from duly.ports import Swept
from duly.stores.deliveries.maintenance import BEGINNING
from tests.stores.store_probe import START, StoreProbe, number_id, settlement

DAY = timedelta(days=1)


async def prune(probe: StoreProbe, completed: timedelta, dead: timedelta, batch: int = 4) -> int:
    """Prune in slices; returns how many were deleted, which must equal the count before."""
    after: str | None = BEGINNING
    total = 0
    while after is not None:
        counted, _ = await probe.store.maintenance.count_prunable(completed, dead, after, batch)
        pruned, after = await probe.store.maintenance.prune(completed, dead, after, batch)
        assert pruned == counted
        total += pruned
    return total


async def sweep(probe: StoreProbe, batch: int = 4) -> Swept:
    """Sweep in slices."""
    after: str | None = BEGINNING
    found = Swept()
    while after is not None:
        swept, after = await probe.store.maintenance.sweep(after, batch)
        found = Swept(
            found.without_lane + swept.without_lane,
            found.without_owner + swept.without_owner,
            found.lane_without_delivery + swept.lane_without_delivery,
        )
    return found


async def ids(probe: StoreProbe) -> set[str]:
    return {str(row["id"]) for row in await probe.sql("select id from duly.deliveries")}


@pytest.mark.requirement("C10")
async def test_unfinished_work_is_never_pruned(probe: StoreProbe) -> None:
    worker = await probe.worker()
    retried = await probe.claimed(worker)
    await probe.settle(settlement(retried, Verdict.RETRY, START, wait=90 * 86400.0))
    reclaimed = await probe.claimed(worker)
    await probe.settle(settlement(reclaimed, Verdict.RECLAIMED, START))
    held = await probe.claimed(worker)
    raised = await probe.finished(Verdict.DEAD)
    await probe.store.deliveries.retry(raised)
    pending = await probe.deliver(due_at=START - 30 * DAY)
    planned = await probe.deliver(due_at=START + 90 * DAY)
    lost = await probe.deliver()
    await probe.sql(f"delete from duly.agenda where delivery = {probe.agenda_id(lost)}")
    unfinished = {retried.id, reclaimed.id, held.id, raised, pending, planned, lost}
    await probe.finished()
    probe.clock.advance(30 * DAY)
    assert await prune(probe, timedelta(0), timedelta(0)) == 1
    assert await ids(probe) == unfinished
    assert len(await probe.store.deliveries.history(retried.id)) == 1


async def test_each_state_is_kept_for_its_own_time(probe: StoreProbe) -> None:
    ids_by_state = {
        "completed": await probe.finished(),
        "expired": await probe.finished(Verdict.EXPIRED),
        "dead": await probe.finished(Verdict.DEAD),
        "cancelled": await probe.deliver(),
    }
    await probe.store.deliveries.cancel(ids_by_state["cancelled"])
    young = await probe.deliver()
    probe.clock.advance(2 * DAY)
    assert await prune(probe, 3 * DAY, 5 * DAY) == 0
    probe.clock.advance(2 * DAY)
    assert await prune(probe, 3 * DAY, 5 * DAY) == 3
    assert await ids(probe) == {ids_by_state["dead"], young}
    assert len(await probe.history(ids_by_state["dead"])) == 1
    probe.clock.advance(2 * DAY)
    assert await prune(probe, 30 * DAY, 5 * DAY) == 1
    assert await ids(probe) == {young}
    assert await probe.count("attempts") == 0


async def test_retention_counts_from_the_end_of_a_delivery(probe: StoreProbe) -> None:
    id = await probe.deliver(due_at=START - 40 * DAY)
    probe.clock.advance(10 * DAY)
    (claimed,) = await probe.claim(await probe.worker())
    await probe.settle(settlement(claimed, Verdict.COMPLETED, probe.clock.now()))
    assert await prune(probe, 3 * DAY, 3 * DAY) == 0
    probe.clock.advance(3 * DAY + timedelta(seconds=3))
    assert await prune(probe, 3 * DAY, 3 * DAY) == 1
    assert id not in await ids(probe)


async def test_a_slice_is_no_larger_than_its_batch(probe: StoreProbe) -> None:
    for _ in range(5):
        await probe.finished()
    probe.clock.advance(DAY)
    first, after = await probe.store.maintenance.prune(timedelta(0), timedelta(0), BEGINNING, 2)
    assert (first, after) == (2, number_id(2))
    second, after = await probe.store.maintenance.prune(timedelta(0), timedelta(0), number_id(2), 2)
    assert (second, after) == (2, number_id(4))
    third = await probe.store.maintenance.prune(timedelta(0), timedelta(0), number_id(4), 2)
    assert third == (1, None)


@pytest.mark.parametrize("left", [0, 1])
async def test_pruning_ends_by_deleting_workers_that_ended_long_ago(
    probe: StoreProbe, left: int
) -> None:
    for _ in range(left):
        await probe.deliver(due_at=START + 90 * DAY)
    gone, alive = await probe.worker(lease=5), await probe.worker(lease=3600)
    probe.clock.advance(6)
    await probe.store.workers.declare_dead()
    probe.clock.advance(61)
    await probe.store.workers.finish_dead()
    probe.clock.advance(2 * DAY)
    await prune(probe, 3 * DAY, DAY)
    assert {each.id for each in await probe.store.workers.all()} == {gone, alive}
    probe.clock.advance(2 * DAY)
    await prune(probe, 3 * DAY, DAY)
    assert [each.id for each in await probe.store.workers.all()] == [alive]


@pytest.mark.requirement("D15")
async def test_a_delivery_without_a_lane_gets_one(probe: StoreProbe) -> None:
    ids = [await probe.deliver(priority=3, due_at=START - DAY) for _ in range(6)]
    lane = await probe.lane(ids[4])
    for id in (ids[1], ids[4]):
        await probe.sql(f"delete from duly.agenda where delivery = {probe.agenda_id(id)}")
    assert await sweep(probe) == Swept(without_lane=2)
    assert await probe.lane(ids[4]) == lane
    assert await sweep(probe) == Swept()
    requests = [await probe.claim_request(priority=3)]
    found = await probe.claim(await probe.worker(), 9, requests)
    assert {each.id for each in found} == set(ids)


@pytest.mark.requirement("D15")
async def test_a_lane_held_by_an_unknown_worker_is_freed(probe: StoreProbe) -> None:
    claimed, fine = await probe.claimed(), await probe.claimed()
    stray = token(987_654, 3)
    await probe.sql(
        f"update duly.agenda set token = {stray} where delivery = {probe.agenda_id(claimed.id)}"
    )
    lane = await probe.lane(claimed.id) or {}
    assert await sweep(probe) == Swept(without_owner=1)
    assert await probe.lane(claimed.id) == lane | {"token": None, "claimed_at": None}
    assert (await probe.store.deliveries.get(fine.id)).state == "processing"
    assert await sweep(probe) == Swept()


@pytest.mark.requirement("D15")
async def test_a_claim_of_an_already_reclaimed_worker_is_freed(probe: StoreProbe) -> None:
    worker = await probe.worker(lease=5)
    claimed = await probe.claimed(worker)
    await probe.sql(f"update duly.workers set reclaimed_at = beat_at where id = {worker}")
    assert await sweep(probe) == Swept(without_owner=1)
    assert (await probe.store.deliveries.get(claimed.id)).state == "pending"


@pytest.mark.requirement("D15")
async def test_the_lane_of_a_finished_delivery_is_deleted(probe: StoreProbe) -> None:
    done, held, open = await probe.deliver(), await probe.claimed(), await probe.deliver()
    await probe.store.agenda.release(held.token)
    await probe.sql(f"update duly.deliveries set state = 'completed' where id = '{done}'")
    assert await sweep(probe) == Swept(lane_without_delivery=1)
    assert await probe.lane(done) is None
    assert await probe.lane(open) is not None
    assert await sweep(probe) == Swept()


@pytest.mark.requirement("D15", "D3")
async def test_a_lane_without_a_delivery_is_deleted_even_while_held(probe: StoreProbe) -> None:
    before, gone, after = await probe.deliver(), await probe.deliver(), await probe.deliver()
    await probe.sql(f"delete from duly.deliveries where id = '{gone}'")
    worker = await probe.worker()
    assert len(await probe.claim(worker)) == 3
    assert await sweep(probe, batch=10) == Swept(lane_without_delivery=1)
    assert await probe.count("agenda") == 2
    for id in (before, after):
        assert (await probe.store.deliveries.get(id)).state == "processing"


@pytest.mark.requirement("D15")
async def test_a_sweep_changes_nothing_that_is_consistent(probe: StoreProbe) -> None:
    worker = await probe.worker()
    retried = await probe.claimed(worker)
    await probe.settle(settlement(retried, Verdict.RETRY, START))
    held = await probe.claimed(worker)
    await probe.finished()
    await probe.finished(Verdict.DEAD)
    await probe.deliver(due_at=START + DAY)
    lanes = await probe.sql("select * from duly.agenda order by lane")
    assert await sweep(probe) == Swept()
    assert await probe.sql("select * from duly.agenda order by lane") == lanes
    assert (await probe.lane(held.id) or {})["token"] == held.token
    assert await sweep(probe, batch=1) == Swept()


async def test_forgetting_a_namespace_deletes_all_its_rows(probe: StoreProbe) -> None:
    await probe.finished(Verdict.DEAD)
    await probe.claimed()
    await probe.deliver()
    async with probe.store.transaction() as transaction:
        await probe.store.inbox.receive(transaction, "m", "billing")
    after: str | None = BEGINNING
    while after is not None:
        after = await probe.store.maintenance.forget("default", after, 2)
    for table in ("deliveries", "agenda", "attempts", "workers", "targets", "inbox"):
        assert await probe.count(table) == 0, table
