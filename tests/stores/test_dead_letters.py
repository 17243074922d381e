"""Dead letters in the store: every column that changes, and no change applied twice."""

from datetime import timedelta

import pytest

from duly.domain.dead_letters import why_suspected
from duly.domain.deliveries import retry
from duly.domain.deliveries.outcomes import Verdict
from duly.domain.moments import microseconds
from duly.errors import Conflict
from duly.ports import BulkCursor, Discard, Retry
from duly.records.dead_letter import DeadLetterFilter
from tests.stores.store_probe import START, StoreProbe, settlement

pytestmark = pytest.mark.requirement("F4")
SECOND = timedelta(seconds=1)


async def dead(probe: StoreProbe, fingerprint: str | None = "f" * 16) -> str:
    """A dead letter with a fingerprint."""
    claimed = await probe.claimed()
    now = probe.clock.now()
    await probe.settle(settlement(claimed, Verdict.DEAD, now, fingerprint=fingerprint))
    return claimed.id


async def move_all(probe: StoreProbe, filter: DeadLetterFilter, limit: int = 9) -> int:
    place: BulkCursor | None = BulkCursor()
    total = 0
    while place is not None:
        moved, place = await probe.store.dead_letters.move(filter, Retry(), place, limit)
        total += moved
    return total


async def test_a_dead_letter_has_a_fingerprint_until_it_is_retried(probe: StoreProbe) -> None:
    id = await dead(probe)
    before = await probe.ledger(id)
    assert before["fingerprint"] == "f" * 16
    probe.clock.advance(7)
    await probe.store.dead_letters.retry(id, "kim", reset=True)
    assert await probe.ledger(id) == before | {
        "state": "pending", "attempt": 0, "dead_at": None, "finished_at": None,
        "fingerprint": None,
    }  # fmt: skip
    lane = await probe.lane(id)
    assert lane is not None
    assert lane["due_at"] == probe.clock.now()
    assert (await probe.history(id))[-1]["outcome"] == "retried"


async def test_a_retry_without_reset_keeps_the_number_of_attempts(probe: StoreProbe) -> None:
    id = await dead(probe)
    attempt = (await probe.ledger(id))["attempt"]
    await probe.store.dead_letters.retry(id, "kim", reset=False)
    assert (await probe.ledger(id))["attempt"] == attempt
    assert (await probe.history(id))[-1]["attempt"] == attempt


async def test_a_discard_keeps_the_reason_of_the_failure(probe: StoreProbe) -> None:
    id = await dead(probe)
    before = await probe.ledger(id)
    now = probe.clock.advance(7)
    await probe.store.dead_letters.discard(id, "its note", "kim")
    assert await probe.ledger(id) == before | {
        "state": "cancelled", "dead_at": None, "finished_at": now, "fingerprint": None,
    }  # fmt: skip
    last = (await probe.history(id))[-1]
    assert (last["outcome"], last["reason"], last["error"]) == ("discarded", "operator", "its note")
    with pytest.raises(Conflict):
        await probe.store.dead_letters.discard(id, "again", "kim")


async def test_an_edit_changes_the_payload_and_records_the_previous_one(probe: StoreProbe) -> None:
    id = await dead(probe)
    payload = (await probe.ledger(id))["payload"]
    await probe.store.dead_letters.edit(id, b'{"new":1}', "kim")
    assert (await probe.ledger(id))["payload"] == b'{"new":1}'
    answers = {each["outcome"]: each["answer"] for each in await probe.history(id)}
    assert answers["edited"] == f'{{"payload":{payload.decode()}}}'


async def test_batches_are_in_order_of_death_and_become_due_one_after_the_other(
    probe: StoreProbe,
) -> None:
    ids = []
    for _ in range(5):
        ids.append(await dead(probe))
        probe.clock.advance(1)
    now, place, moved = probe.clock.now(), BulkCursor(), []
    while place is not None:
        many, place = await probe.store.dead_letters.move(
            DeadLetterFilter(), Retry(spread=0.5), place, 2
        )  # type: ignore[assignment]
        moved.append(many)
    assert moved == [2, 2, 1, 0]
    due = [(await probe.lane(id))["due_at"] for id in ids]  # type: ignore[index]
    assert due == [now, now + SECOND / 2, now, now + SECOND / 2, now]


async def test_a_second_death_by_a_clock_that_is_behind_is_not_moved_again(
    probe: StoreProbe,
) -> None:
    id = await dead(probe)
    until = probe.clock.advance(10)
    wanted = DeadLetterFilter(until=until)
    probe.clock.advance(1)
    assert await move_all(probe, wanted) == 1
    worker = await probe.worker()
    (claimed,) = await probe.claim(worker)
    early = START + SECOND
    await probe.settle(settlement(claimed, Verdict.DEAD, early, finished_us=microseconds(early)))
    assert (await probe.ledger(id))["dead_at"] < until
    assert await probe.store.dead_letters.count(wanted) == 0
    assert await move_all(probe, wanted) == 0
    assert await probe.store.dead_letters.count(DeadLetterFilter()) == 1


async def test_dead_letters_without_a_fingerprint_are_one_group(probe: StoreProbe) -> None:
    id = await dead(probe, None)
    (group,) = await probe.store.dead_letters.groups(DeadLetterFilter(), 9)
    assert (group.fingerprint, group.count) == ("unknown", 1)
    (found,) = await probe.store.dead_letters.page(DeadLetterFilter(fingerprint="unknown"), None, 9)
    assert found.id == id


async def test_a_batch_of_discards_is_no_larger_than_its_limit(probe: StoreProbe) -> None:
    for _ in range(3):
        await dead(probe)
    discard, wanted = Discard("why"), DeadLetterFilter()
    first, place = await probe.store.dead_letters.move(wanted, discard, BulkCursor(), 2)
    assert place is not None
    second, _ = await probe.store.dead_letters.move(wanted, discard, place, 2)
    assert (first, second) == (2, 1)


async def test_suspects_whose_workers_died_come_before_those_that_failed(probe: StoreProbe) -> None:
    now, ids = probe.clock.now(), []
    for verdict, crashes in ((Verdict.RETRY, 0), (Verdict.RECLAIMED, 2), (Verdict.RELEASED, 0)):
        claimed = await probe.claimed()
        await probe.settle(settlement(claimed, verdict, now, crashes=crashes))
        ids.append(claimed.id)
    found = await probe.store.dead_letters.suspects(9, failed=True)
    assert [each.id for each in found] == [ids[1], ids[0]]
    why = [why_suspected(each, retry.delays(1)) for each in found]
    assert why == ["2 workers died while they held it", "its next attempt is the last of 2"]
    assert why_suspected(found[1], retry.DEFAULT) is None
    crashed = await probe.store.dead_letters.suspects(9, failed=False)
    assert [each.id for each in crashed] == [ids[1]]
