"""Dead letters on the books: every column of what moves, and nothing moved twice."""

from datetime import timedelta

import pytest

from duly.domain.dead_letters import why_suspected
from duly.domain.deliveries import retry
from duly.domain.deliveries.outcomes import Verdict
from duly.errors import Conflict
from duly.ports import BulkCursor, Discard, Retry
from duly.records.dead_letter import DeadLetterFilter
from tests.stores.books import START, Books, settlement

pytestmark = pytest.mark.requirement("F4")
SECOND = timedelta(seconds=1)


async def dead(books: Books, fingerprint: str | None = "f" * 16) -> str:
    """A dead letter with a fingerprint."""
    claimed = await books.claimed()
    now = books.clock.now()
    await books.settle(settlement(claimed, Verdict.DEAD, now, fingerprint=fingerprint))
    return claimed.id


async def move_all(books: Books, filter: DeadLetterFilter, limit: int = 9) -> int:
    place: BulkCursor | None = BulkCursor()
    total = 0
    while place is not None:
        moved, place = await books.store.dead_letters.move(filter, Retry(), place, limit)
        total += moved
    return total


async def test_a_death_keeps_its_fingerprint_until_it_is_retried(books: Books) -> None:
    id = await dead(books)
    before = await books.ledger(id)
    assert before["fingerprint"] == "f" * 16
    books.clock.advance(7)
    await books.store.dead_letters.retry(id, "kim", reset=True)
    assert await books.ledger(id) == before | {
        "state": "pending", "attempt": 0, "dead_at": None, "finished_at": None,
        "fingerprint": None,
    }  # fmt: skip
    lane = await books.lane(id)
    assert lane is not None
    assert lane["due_at"] == books.clock.now()
    assert (await books.history(id))[-1]["outcome"] == "retried"


async def test_keeping_attempts_changes_no_number(books: Books) -> None:
    id = await dead(books)
    attempt = (await books.ledger(id))["attempt"]
    await books.store.dead_letters.retry(id, "kim", reset=False)
    assert (await books.ledger(id))["attempt"] == attempt
    assert (await books.history(id))[-1]["attempt"] == attempt


async def test_a_discard_keeps_why_it_died(books: Books) -> None:
    id = await dead(books)
    before = await books.ledger(id)
    now = books.clock.advance(7)
    await books.store.dead_letters.discard(id, "its note", "kim")
    assert await books.ledger(id) == before | {
        "state": "cancelled", "dead_at": None, "finished_at": now, "fingerprint": None,
    }  # fmt: skip
    last = (await books.history(id))[-1]
    assert (last["outcome"], last["reason"], last["error"]) == ("discarded", "operator", "its note")
    with pytest.raises(Conflict):
        await books.store.dead_letters.discard(id, "again", "kim")


async def test_an_edit_changes_the_payload_and_keeps_the_one_before(books: Books) -> None:
    id = await dead(books)
    payload = (await books.ledger(id))["payload"]
    await books.store.dead_letters.edit(id, b'{"new":1}', "kim")
    assert (await books.ledger(id))["payload"] == b'{"new":1}'
    answers = {each["outcome"]: each["answer"] for each in await books.history(id)}
    assert answers["edited"] == f'{{"payload":{payload.decode()}}}'


async def test_batches_go_by_death_and_are_due_one_after_the_other(books: Books) -> None:
    ids = []
    for _ in range(5):
        ids.append(await dead(books))
        books.clock.advance(1)
    now, place, moved = books.clock.now(), BulkCursor(), []
    while place is not None:
        many, place = await books.store.dead_letters.move(
            DeadLetterFilter(), Retry(spread=0.5), place, 2
        )  # type: ignore[assignment]
        moved.append(many)
    assert moved == [2, 2, 1, 0]
    due = [(await books.lane(id))["due_at"] for id in ids]  # type: ignore[index]
    assert due == [now, now + SECOND / 2, now, now + SECOND / 2, now]


async def test_one_that_died_anew_by_a_clock_that_is_behind_is_not_moved_again(
    books: Books,
) -> None:
    id = await dead(books)
    until = books.clock.advance(10)
    wanted = DeadLetterFilter(until=until)
    books.clock.advance(1)
    assert await move_all(books, wanted) == 1
    worker = await books.worker()
    (claimed,) = await books.claim(worker)
    early = START + SECOND
    await books.settle(settlement(claimed, Verdict.DEAD, early, finished_at=early))
    assert (await books.ledger(id))["dead_at"] < until
    assert await books.store.dead_letters.count(wanted) == 0
    assert await move_all(books, wanted) == 0
    assert await books.store.dead_letters.count(DeadLetterFilter()) == 1


async def test_those_from_before_fingerprints_are_one_group(books: Books) -> None:
    id = await dead(books, None)
    (group,) = await books.store.dead_letters.groups(DeadLetterFilter(), 9)
    assert (group.fingerprint, group.count) == ("unknown", 1)
    (found,) = await books.store.dead_letters.page(DeadLetterFilter(fingerprint="unknown"), None, 9)
    assert found.id == id


async def test_a_batch_that_is_given_up_is_no_larger_than_asked_for(books: Books) -> None:
    for _ in range(3):
        await dead(books)
    give_up, wanted = Discard("why"), DeadLetterFilter()
    first, place = await books.store.dead_letters.move(wanted, give_up, BulkCursor(), 2)
    assert place is not None
    second, _ = await books.store.dead_letters.move(wanted, give_up, place, 2)
    assert (first, second) == (2, 1)


async def test_one_whose_workers_died_is_a_suspect_before_those_that_failed(books: Books) -> None:
    now, ids = books.clock.now(), []
    for verdict, crashes in ((Verdict.RETRY, 0), (Verdict.RECLAIMED, 2), (Verdict.RELEASED, 0)):
        claimed = await books.claimed()
        await books.settle(settlement(claimed, verdict, now, crashes=crashes))
        ids.append(claimed.id)
    found = await books.store.dead_letters.suspects(9, failed=True)
    assert [each.id for each in found] == [ids[1], ids[0]]
    why = [why_suspected(each, retry.delays(1)) for each in found]
    assert why == ["2 workers died while they held it", "its next attempt is the last of 2"]
    assert why_suspected(found[1], retry.DEFAULT) is None
    crashed = await books.store.dead_letters.suspects(9, failed=False)
    assert [each.id for each in crashed] == [ids[1]]
