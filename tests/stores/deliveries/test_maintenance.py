"""Pruning what is finished, and sweeping up what no ordinary path would find."""

from datetime import timedelta

import pytest

from duly.domain.deliveries.identifiers import token
from duly.domain.deliveries.outcomes import Verdict
from duly.ports import Swept
from duly.stores.deliveries.maintenance import BEGINNING
from tests.stores.books import START, Books, number_id, settlement

DAY = timedelta(days=1)


async def prune(books: Books, completed: timedelta, dead: timedelta, batch: int = 4) -> int:
    """Prune all slices; returns how many went, which must be as many as were counted."""
    after: str | None = BEGINNING
    total = 0
    while after is not None:
        counted, _ = await books.store.maintenance.count_prunable(completed, dead, after, batch)
        pruned, after = await books.store.maintenance.prune(completed, dead, after, batch)
        assert pruned == counted
        total += pruned
    return total


async def sweep(books: Books, batch: int = 4) -> Swept:
    """Sweep all slices."""
    after: str | None = BEGINNING
    found = Swept()
    while after is not None:
        swept, after = await books.store.maintenance.sweep(after, batch)
        found = Swept(
            found.without_lane + swept.without_lane,
            found.without_owner + swept.without_owner,
            found.lane_without_delivery + swept.lane_without_delivery,
        )
    return found


async def ids(books: Books) -> set[str]:
    return {str(row["id"]) for row in await books.sql("select id from duly.deliveries")}


@pytest.mark.requirement("C10")
async def test_unfinished_work_is_never_pruned(books: Books) -> None:
    worker = await books.worker()
    retried = await books.claimed(worker)
    await books.settle(settlement(retried, Verdict.RETRY, START, wait=90 * 86400.0))
    reclaimed = await books.claimed(worker)
    await books.settle(settlement(reclaimed, Verdict.RECLAIMED, START))
    held = await books.claimed(worker)
    raised = await books.finished(Verdict.DEAD)
    await books.store.deliveries.retry(raised)
    pending = await books.deliver(due_at=START - 30 * DAY)
    planned = await books.deliver(due_at=START + 90 * DAY)
    lost = await books.deliver()
    await books.sql(f"delete from duly.agenda where delivery = {books.place(lost)}")
    unfinished = {retried.id, reclaimed.id, held.id, raised, pending, planned, lost}
    await books.finished()
    books.clock.advance(30 * DAY)
    assert await prune(books, timedelta(0), timedelta(0)) == 1
    assert await ids(books) == unfinished
    assert len(await books.store.deliveries.history(retried.id)) == 1


async def test_each_kind_is_kept_for_its_own_time(books: Books) -> None:
    kinds = {
        "completed": await books.finished(),
        "expired": await books.finished(Verdict.EXPIRED),
        "dead": await books.finished(Verdict.DEAD),
        "cancelled": await books.deliver(),
    }
    await books.store.deliveries.cancel(kinds["cancelled"])
    young = await books.deliver()
    books.clock.advance(2 * DAY)
    assert await prune(books, 3 * DAY, 5 * DAY) == 0
    books.clock.advance(2 * DAY)
    assert await prune(books, 3 * DAY, 5 * DAY) == 3
    assert await ids(books) == {kinds["dead"], young}
    assert len(await books.history(kinds["dead"])) == 1
    books.clock.advance(2 * DAY)
    assert await prune(books, 30 * DAY, 5 * DAY) == 1
    assert await ids(books) == {young}
    assert await books.count("attempts") == 0


async def test_what_is_kept_counts_from_its_end(books: Books) -> None:
    id = await books.deliver(due_at=START - 40 * DAY)
    books.clock.advance(10 * DAY)
    (claimed,) = await books.claim(await books.worker())
    await books.settle(settlement(claimed, Verdict.COMPLETED, books.clock.now()))
    assert await prune(books, 3 * DAY, 3 * DAY) == 0
    books.clock.advance(3 * DAY + timedelta(seconds=3))
    assert await prune(books, 3 * DAY, 3 * DAY) == 1
    assert id not in await ids(books)


async def test_a_slice_is_no_larger_than_its_batch(books: Books) -> None:
    for _ in range(5):
        await books.finished()
    books.clock.advance(DAY)
    first, after = await books.store.maintenance.prune(timedelta(0), timedelta(0), BEGINNING, 2)
    assert (first, after) == (2, number_id(2))
    second, after = await books.store.maintenance.prune(timedelta(0), timedelta(0), number_id(2), 2)
    assert (second, after) == (2, number_id(4))
    third = await books.store.maintenance.prune(timedelta(0), timedelta(0), number_id(4), 2)
    assert third == (1, None)


@pytest.mark.parametrize("left", [0, 1])
async def test_workers_long_gone_are_forgotten_at_the_end_of_a_pruning(
    books: Books, left: int
) -> None:
    for _ in range(left):
        await books.deliver(due_at=START + 90 * DAY)
    gone, alive = await books.worker(lease=5), await books.worker(lease=3600)
    books.clock.advance(6)
    await books.store.workers.declare_dead()
    books.clock.advance(61)
    await books.store.workers.finish_dead()
    books.clock.advance(2 * DAY)
    await prune(books, 3 * DAY, DAY)
    assert {each.id for each in await books.store.workers.all()} == {gone, alive}
    books.clock.advance(2 * DAY)
    await prune(books, 3 * DAY, DAY)
    assert [each.id for each in await books.store.workers.all()] == [alive]


@pytest.mark.requirement("D15")
async def test_a_delivery_without_its_lane_comes_back(books: Books) -> None:
    ids = [await books.deliver(priority=3, due_at=START - DAY) for _ in range(6)]
    lane = await books.lane(ids[4])
    for id in (ids[1], ids[4]):
        await books.sql(f"delete from duly.agenda where delivery = {books.place(id)}")
    assert await sweep(books) == Swept(without_lane=2)
    assert await books.lane(ids[4]) == lane
    assert await sweep(books) == Swept()
    asks = [await books.ask(priority=3)]
    found = await books.claim(await books.worker(), 9, asks)
    assert {each.id for each in found} == set(ids)


@pytest.mark.requirement("D15")
async def test_a_lane_held_by_an_unknown_worker_is_freed(books: Books) -> None:
    claimed, fine = await books.claimed(), await books.claimed()
    stray = token(987_654, 3)
    await books.sql(
        f"update duly.agenda set token = {stray} where delivery = {books.place(claimed.id)}"
    )
    lane = await books.lane(claimed.id) or {}
    assert await sweep(books) == Swept(without_owner=1)
    assert await books.lane(claimed.id) == lane | {"token": None, "claimed_at": None}
    assert (await books.store.deliveries.get(fine.id)).state == "processing"
    assert await sweep(books) == Swept()


@pytest.mark.requirement("D15")
async def test_a_claim_that_landed_in_a_closed_grave_is_freed(books: Books) -> None:
    worker = await books.worker(lease=5)
    claimed = await books.claimed(worker)
    await books.sql(f"update duly.workers set reclaimed_at = beat_at where id = {worker}")
    assert await sweep(books) == Swept(without_owner=1)
    assert (await books.store.deliveries.get(claimed.id)).state == "pending"


@pytest.mark.requirement("D15")
async def test_a_lane_whose_delivery_is_finished_is_dropped(books: Books) -> None:
    done, held, open = await books.deliver(), await books.claimed(), await books.deliver()
    await books.store.agenda.release(held.token)
    await books.sql(f"update duly.deliveries set state = 'completed' where id = '{done}'")
    assert await sweep(books) == Swept(lane_without_delivery=1)
    assert await books.lane(done) is None
    assert await books.lane(open) is not None
    assert await sweep(books) == Swept()


@pytest.mark.requirement("D15", "D3")
async def test_a_lane_whose_delivery_is_gone_is_dropped_even_while_held(books: Books) -> None:
    before, gone, after = await books.deliver(), await books.deliver(), await books.deliver()
    await books.sql(f"delete from duly.deliveries where id = '{gone}'")
    worker = await books.worker()
    assert len(await books.claim(worker)) == 3
    assert await sweep(books, batch=10) == Swept(lane_without_delivery=1)
    assert await books.count("agenda") == 2
    for id in (before, after):
        assert (await books.store.deliveries.get(id)).state == "processing"


@pytest.mark.requirement("D15")
async def test_a_sweep_leaves_alone_what_is_well(books: Books) -> None:
    worker = await books.worker()
    retried = await books.claimed(worker)
    await books.settle(settlement(retried, Verdict.RETRY, START))
    held = await books.claimed(worker)
    await books.finished()
    await books.finished(Verdict.DEAD)
    await books.deliver(due_at=START + DAY)
    lanes = await books.sql("select * from duly.agenda order by lane")
    assert await sweep(books) == Swept()
    assert await books.sql("select * from duly.agenda order by lane") == lanes
    assert (await books.lane(held.id) or {})["token"] == held.token
    assert await sweep(books, batch=1) == Swept()


async def test_forgetting_a_namespace_leaves_nothing_of_it(books: Books) -> None:
    await books.finished(Verdict.DEAD)
    await books.claimed()
    await books.deliver()
    async with books.store.transaction() as transaction:
        await books.store.inbox.receive(transaction, "m", "billing")
    after: str | None = BEGINNING
    while after is not None:
        after = await books.store.maintenance.forget("default", after, 2)
    for table in ("deliveries", "agenda", "attempts", "workers", "targets", "inbox"):
        assert await books.count(table) == 0, table
