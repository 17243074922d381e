"""Namespaces share a database and do not see each other's data."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from duly.errors import NotFound
from duly.ports import Filter
from duly.records.delivery import Accepted
from duly.stores.deliveries.maintenance import BEGINNING
from duly.testing import VirtualClock
from tests.stores.store_probe import START, StoreProbe, number_id, open_probe


@pytest.fixture
async def others(
    store_url: str, clock: VirtualClock, probe: StoreProbe
) -> AsyncIterator[StoreProbe]:
    found = await open_probe(store_url, clock, namespace="others")
    found._made = 500
    yield found
    await found.store.close()


async def test_a_key_belongs_to_its_namespace(probe: StoreProbe, others: StoreProbe) -> None:
    ours = await probe.deliver(key="k", payload=b"[1]")
    theirs = await others.deliver(key="k", payload=b"[2]")
    assert ours != theirs
    (second,) = await others.accept(others.request(key="k", payload=b"[2]"))
    assert second == Accepted(id=theirs, due_at=START, known=True)


async def test_data_of_another_namespace_is_not_visible(
    probe: StoreProbe, others: StoreProbe
) -> None:
    theirs = await others.deliver(due_at=START - timedelta(hours=1))
    held = await others.claimed()
    ours = await probe.deliver()
    assert [each.id for each in (await probe.store.deliveries.page(Filter()))[0]] == [ours]
    assert [each.target for each in await probe.store.agenda.survey()] == [await probe.target()]
    assert [each.id for each in await probe.store.deliveries.late(timedelta(0), 9)] == []
    probe.clock.advance(3600)
    stuck = await probe.store.deliveries.stuck(timedelta(minutes=5), 9)
    assert theirs not in {each.id for each in stuck}
    assert held.id not in {each.id for each in stuck}
    assert await probe.store.workers.all() == []


@pytest.mark.parametrize("verb", ["get", "cancel", "retry", "history"])
async def test_data_of_another_namespace_cannot_be_changed(
    probe: StoreProbe, others: StoreProbe, verb: str
) -> None:
    theirs = await others.deliver()
    rows = await others.ledger(theirs), await others.lane(theirs)
    with pytest.raises(NotFound):
        await getattr(probe.store.deliveries, verb)(theirs)
    assert (await others.ledger(theirs), await others.lane(theirs)) == rows


async def test_the_same_target_has_another_number_in_another_namespace(
    probe: StoreProbe, others: StoreProbe
) -> None:
    theirs = await others.deliver()
    await probe.deliver()
    assert await probe.target() != await others.target()
    found = await probe.claim(await probe.worker())
    assert [each.id for each in found] == [number_id(1)]
    assert (await others.store.deliveries.get(theirs)).state == "pending"


async def test_pruning_a_namespace_does_not_change_another(
    probe: StoreProbe, others: StoreProbe
) -> None:
    theirs, ours = await others.finished(), await probe.finished()
    probe.clock.advance(timedelta(days=9))
    maintenance, day = probe.store.maintenance, timedelta(days=1)
    assert await maintenance.count_prunable(day, day, BEGINNING, 99) == (1, None)
    assert await maintenance.prune(day, day, BEGINNING, 99) == (1, None)
    assert (await others.store.deliveries.get(theirs)).state == "completed"
    with pytest.raises(NotFound):
        await probe.store.deliveries.get(ours)


async def test_forgetting_a_namespace_does_not_change_another(
    probe: StoreProbe, others: StoreProbe
) -> None:
    theirs = await others.deliver()
    await probe.deliver()
    await probe.store.maintenance.forget("default", BEGINNING, 99)
    assert await others.lane(theirs) is not None
    assert await probe.count("deliveries") == await probe.count("agenda") == 1
