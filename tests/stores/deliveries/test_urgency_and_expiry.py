"""The order of claimed deliveries, and when a waiting delivery that expires is due."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import Verdict
from duly.testing import VirtualClock
from tests.stores.store_probe import START, StoreProbe, open_probe, settlement
from tests.stores.stream_probe import NAME, StreamProbe

SECOND = timedelta(seconds=1)
SOON = START + 60 * SECOND
"""When the head expires: before its retry, or before it is due."""


@pytest.fixture
def streams(probe: StoreProbe) -> StreamProbe:
    return StreamProbe(probe)


@pytest.mark.requirement("D6")
async def test_a_claim_returns_the_highest_priorities_first(probe: StoreProbe) -> None:
    worker = await probe.worker()
    lanes = [(1, None), (5, None), (9, None), (5, NAME), (9, "another"), (1, "third"), (9, None)]
    for age, (priority, stream) in enumerate(lanes):
        await probe.deliver(priority=priority, stream=stream, due_at=START - age * SECOND)
    for order in ((1, 5, 9), (9, 5, 1)):
        requests = [await probe.claim_request(priority=priority) for priority in order]
        found = await probe.claim(worker, 99, requests)
        assert [each.priority for each in found] == [9, 9, 9, 5, 5, 1, 1]
        assert [each.due_at for each in found] == due_by_priority(found)
        for each in found:
            await probe.store.agenda.release(each.token)


def due_by_priority(found: Sequence[Claimed]) -> list[datetime]:
    return [each.due_at for each in sorted(found, key=lambda each: (-each.priority, each.due_at))]


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("verdict", [Verdict.RETRY, Verdict.DEFERRED])
async def test_a_waiting_head_is_due_when_it_expires(
    streams: StreamProbe, verdict: Verdict
) -> None:
    head, follower = [*await streams.add(expires_at=SOON), *await streams.add()]
    await streams.run_head(verdict, wait=3600.0, on_failure=None)
    assert await streams.claim() is None
    streams.probe.clock.advance(60)
    claimed = await streams.claim()
    assert claimed is not None
    assert (claimed.id, claimed.expires_in) == (head, 0.0)
    assert await streams.settle(claimed, Verdict.EXPIRED)
    assert await streams.run_head() == follower


@pytest.mark.parametrize("verdict", [Verdict.RETRY, Verdict.DEFERRED])
async def test_a_waiting_delivery_without_a_stream_is_due_when_it_expires(
    probe: StoreProbe, verdict: Verdict
) -> None:
    claimed = await probe.claimed(expires_at=SOON)
    await probe.settle(settlement(claimed, verdict, START, wait=3600.0))
    probe.clock.advance(60)
    (second,) = await probe.claim(await probe.worker())
    assert second.expires_in == 0.0


async def test_a_retry_before_the_expiry_is_due_at_its_own_time(
    probe: StoreProbe,
) -> None:
    claimed = await probe.claimed(expires_at=SOON)
    await probe.settle(settlement(claimed, Verdict.RETRY, START, wait=30.0))
    probe.clock.advance(30)
    (second,) = await probe.claim(await probe.worker())
    assert second.expires_in == 30.0


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("place", [0, 1])
async def test_a_delivery_that_expires_before_it_is_due_does_not_block_its_stream(
    streams: StreamProbe, place: int
) -> None:
    await streams.add(place)
    late = START + 3600 * SECOND
    (head,) = await streams.add(due_at=late, expires_at=SOON)
    (follower,) = await streams.add()
    for _ in range(place):
        await streams.run_head()
    assert await streams.claim() is None
    streams.probe.clock.advance(60)
    claimed = await streams.claim()
    assert claimed is not None
    assert claimed.id == head
    assert await streams.settle(claimed, Verdict.EXPIRED)
    assert await streams.run_head() == follower


@pytest.mark.requirement("F5")
async def test_a_delivery_that_expired_in_a_paused_stream_is_due_on_resume(
    streams: StreamProbe,
) -> None:
    (head,) = await streams.add(expires_at=SOON)
    await streams.add()
    await streams.run_head(Verdict.RETRY, wait=3600.0)
    await streams.service.pause(NAME)
    streams.probe.clock.advance(61)
    assert await streams.claim() is None
    await streams.service.resume(NAME)
    claimed = await streams.claim()
    assert claimed is not None
    assert claimed.id == head
    assert claimed.expires_in is not None
    assert claimed.expires_in < 0


@pytest.mark.requirement("F5")
async def test_a_delivery_accepted_in_sql_is_due_when_it_expires(
    emptied_postgres_url: str, clock: VirtualClock
) -> None:
    probe = await open_probe(emptied_postgres_url, clock)
    await probe.target()
    request = {
        "id": probe.request().id,
        "namespace": "default",
        "target": "mail",
        "may_be_new": False,
        "payload": "{}",
        "due_at": (START + 3600 * SECOND).isoformat(),
        "as_of": START.isoformat(),
        "priority": 5,
        "expires_at": SOON.isoformat(),
        "stream": NAME,
    }
    await probe.sql(f"select duly.accept('{json.dumps(request)}')")
    clock.advance(60)
    assert await StreamProbe(probe).claim() is not None
    await probe.store.close()
