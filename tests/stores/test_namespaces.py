"""Namespaces share a database and see nothing of each other."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from duly.errors import NotFound
from duly.ports import Filter
from duly.records.delivery import Accepted
from duly.stores.deliveries.maintenance import BEGINNING
from duly.testing import VirtualClock
from tests.stores.books import START, Books, number_id, opened


@pytest.fixture
async def others(books_url: str, clock: VirtualClock, books: Books) -> AsyncIterator[Books]:
    found = await opened(books_url, clock, namespace="others")
    found._made = 500
    yield found
    await found.store.close()


async def test_a_key_belongs_to_its_namespace(books: Books, others: Books) -> None:
    ours = await books.deliver(key="k", payload=b"[1]")
    theirs = await others.deliver(key="k", payload=b"[2]")
    assert ours != theirs
    (again,) = await others.accept(others.request(key="k", payload=b"[2]"))
    assert again == Accepted(id=theirs, due_at=START, known=True)


async def test_nothing_of_another_namespace_is_seen(books: Books, others: Books) -> None:
    theirs = await others.deliver(due_at=START - timedelta(hours=1))
    held = await others.claimed()
    ours = await books.deliver()
    assert [each.id for each in (await books.store.deliveries.page(Filter()))[0]] == [ours]
    assert [each.target for each in await books.store.agenda.survey()] == [await books.target()]
    assert [each.id for each in await books.store.deliveries.late(timedelta(0), 9)] == []
    books.clock.advance(3600)
    stuck = await books.store.deliveries.stuck(timedelta(minutes=5), 9)
    assert theirs not in {each.id for each in stuck}
    assert held.id not in {each.id for each in stuck}
    assert await books.store.workers.all() == []


@pytest.mark.parametrize("verb", ["get", "cancel", "retry", "history"])
async def test_nothing_of_another_namespace_can_be_moved(
    books: Books, others: Books, verb: str
) -> None:
    theirs = await others.deliver()
    rows = await others.ledger(theirs), await others.lane(theirs)
    with pytest.raises(NotFound):
        await getattr(books.store.deliveries, verb)(theirs)
    assert (await others.ledger(theirs), await others.lane(theirs)) == rows


async def test_the_same_target_has_another_number_there(books: Books, others: Books) -> None:
    theirs = await others.deliver()
    await books.deliver()
    assert await books.target() != await others.target()
    found = await books.claim(await books.worker())
    assert [each.id for each in found] == [number_id(1)]
    assert (await others.store.deliveries.get(theirs)).state == "pending"


async def test_pruning_one_leaves_the_other(books: Books, others: Books) -> None:
    theirs, ours = await others.finished(), await books.finished()
    books.clock.advance(timedelta(days=9))
    upkeep, day = books.store.maintenance, timedelta(days=1)
    assert await upkeep.count_prunable(day, day, BEGINNING, 99) == (1, None)
    assert await upkeep.prune(day, day, BEGINNING, 99) == (1, None)
    assert (await others.store.deliveries.get(theirs)).state == "completed"
    with pytest.raises(NotFound):
        await books.store.deliveries.get(ours)


async def test_forgetting_one_leaves_the_other(books: Books, others: Books) -> None:
    theirs = await others.deliver()
    await books.deliver()
    await books.store.maintenance.forget("default", BEGINNING, 99)
    assert await others.lane(theirs) is not None
    assert await books.count("deliveries") == await books.count("agenda") == 1
