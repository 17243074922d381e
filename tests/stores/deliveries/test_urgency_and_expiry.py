"""What a claim brings first, and when one that waits is due if it expires before."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import Verdict
from duly.testing import VirtualClock
from tests.stores.books import START, Books, opened, settlement
from tests.stores.lines import NAME, Lines

SECOND = timedelta(seconds=1)
SOON = START + 60 * SECOND
"""When the head expires: before it would be tried again, or would be due."""


@pytest.fixture
def lines(books: Books) -> Lines:
    return Lines(books)


@pytest.mark.requirement("D6")
async def test_the_most_urgent_of_one_claim_come_first(books: Books) -> None:
    worker = await books.worker()
    given = [(1, None), (5, None), (9, None), (5, NAME), (9, "another"), (1, "third"), (9, None)]
    for age, (priority, stream) in enumerate(given):
        await books.deliver(priority=priority, stream=stream, due_at=START - age * SECOND)
    for order in ((1, 5, 9), (9, 5, 1)):
        asks = [await books.ask(priority=priority) for priority in order]
        found = await books.claim(worker, 99, asks)
        assert [each.priority for each in found] == [9, 9, 9, 5, 5, 1, 1]
        assert [each.due_at for each in found] == sorted_within_levels(found)
        for each in found:
            await books.store.agenda.release(each.token)


def sorted_within_levels(found: Sequence[Claimed]) -> list[datetime]:
    return [each.due_at for each in sorted(found, key=lambda each: (-each.priority, each.due_at))]


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("verdict", [Verdict.RETRY, Verdict.DEFERRED])
async def test_a_head_that_expires_while_it_waits_is_due_then(
    lines: Lines, verdict: Verdict
) -> None:
    head, follower = [*await lines.add(expires_at=SOON), *await lines.add()]
    await lines.ended(verdict, wait=3600.0, on_failure=None)
    assert await lines.claim() is None
    lines.books.clock.advance(60)
    claimed = await lines.claim()
    assert claimed is not None
    assert (claimed.id, claimed.expires_in) == (head, 0.0)
    assert await lines.settle(claimed, Verdict.EXPIRED)
    assert await lines.ended() == follower


@pytest.mark.parametrize("verdict", [Verdict.RETRY, Verdict.DEFERRED])
async def test_so_is_one_that_is_in_no_stream(books: Books, verdict: Verdict) -> None:
    claimed = await books.claimed(expires_at=SOON)
    await books.settle(settlement(claimed, verdict, START, wait=3600.0))
    books.clock.advance(60)
    (again,) = await books.claim(await books.worker())
    assert again.expires_in == 0.0


async def test_one_that_is_tried_again_before_it_expires_is_due_at_its_retry(
    books: Books,
) -> None:
    claimed = await books.claimed(expires_at=SOON)
    await books.settle(settlement(claimed, Verdict.RETRY, START, wait=30.0))
    books.clock.advance(30)
    (again,) = await books.claim(await books.worker())
    assert again.expires_in == 30.0


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("place", [0, 1])
async def test_one_that_expires_before_it_is_due_does_not_hold_up_those_behind_it(
    lines: Lines, place: int
) -> None:
    await lines.add(place)
    late = START + 3600 * SECOND
    (head,) = await lines.add(due_at=late, expires_at=SOON)
    (follower,) = await lines.add()
    for _ in range(place):
        await lines.ended()
    assert await lines.claim() is None
    lines.books.clock.advance(60)
    claimed = await lines.claim()
    assert claimed is not None
    assert claimed.id == head
    assert await lines.settle(claimed, Verdict.EXPIRED)
    assert await lines.ended() == follower


@pytest.mark.requirement("F5")
async def test_one_that_expires_in_a_paused_stream_is_due_when_it_goes_on(lines: Lines) -> None:
    (head,) = await lines.add(expires_at=SOON)
    await lines.add()
    await lines.ended(Verdict.RETRY, wait=3600.0)
    await lines.people.pause(NAME)
    lines.books.clock.advance(61)
    assert await lines.claim() is None
    await lines.people.resume(NAME)
    claimed = await lines.claim()
    assert claimed is not None
    assert claimed.id == head
    assert claimed.expires_in is not None
    assert claimed.expires_in < 0


@pytest.mark.requirement("F5")
async def test_one_that_was_accepted_in_sql_and_expires_first_is_due_then(
    emptied_postgres_url: str, clock: VirtualClock
) -> None:
    books = await opened(emptied_postgres_url, clock)
    await books.target()
    request = {
        "id": books.request().id,
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
    await books.sql(f"select duly.accept('{json.dumps(request)}')")
    clock.advance(60)
    assert await Lines(books).claim() is not None
    await books.store.close()
