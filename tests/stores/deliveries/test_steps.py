"""Steps on the books: under the token that holds the lane, the first of a name for good."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from duly.domain.deliveries.outcomes import Verdict
from duly.errors import LeaseLost
from duly.records.attempt import Step
from duly.stores.deliveries.maintenance import BEGINNING
from tests.stores.books import START, Books, settlement

EVERY_VERDICT = [each for each in Verdict if each is not Verdict.EMPTIED]


def step(name: str, result: str = '{"a": "é\\u0000"}', attempt: int = 3) -> Step:
    """A step in which every fact differs from every other."""
    done_at = START + timedelta(seconds=7, microseconds=attempt)
    return Step(
        name=name, attempt=attempt, done_at=done_at, result_json=msgspec.Raw(result.encode())
    )


def plain(found: Step) -> tuple[object, ...]:
    return found.name, found.attempt, found.done_at, bytes(found.result_json)


@pytest.mark.requirement("F8")
async def test_a_step_comes_back_as_it_was_recorded(books: Books) -> None:
    claimed = await books.claimed()
    given = step("charge")
    assert plain(await books.store.steps.record(claimed, given)) == plain(given)
    assert [plain(each) for each in await books.store.steps.load(claimed.id)] == [plain(given)]
    assert await books.store.steps.load((await books.claimed()).id) == []


@pytest.mark.requirement("F8")
async def test_the_first_of_a_name_stays(books: Books) -> None:
    claimed = await books.claimed()
    first, second = step("charge"), step("charge", "[2]", attempt=4)
    await books.store.steps.record(claimed, first)
    assert plain(await books.store.steps.record(claimed, second)) == plain(first)
    late = settlement(claimed, Verdict.RETRY, START, steps=(second, step("ship", "null")))
    assert await books.settle(late) == {claimed.lane}
    found = await books.store.steps.load(claimed.id)
    assert [plain(each) for each in found] == [plain(first), plain(step("ship", "null"))]


@pytest.mark.requirement("F8", "D7")
@pytest.mark.parametrize("verdict", EVERY_VERDICT)
async def test_steps_are_added_with_every_outcome_and_never_by_a_late_worker(
    books: Books, verdict: Verdict
) -> None:
    late, other = await books.claimed(), await books.claimed()
    await books.store.agenda.release(late.token)
    with pytest.raises(LeaseLost):
        await books.store.steps.record(late, step("at once"))
    (holder,) = await books.claim(await books.worker())
    applied = await books.settle(
        settlement(late, verdict, START, steps=(step("stale"),)),
        settlement(holder, verdict, START, steps=(step("valid"), step("too"))),
        settlement(other, Verdict.COMPLETED, START),
    )
    assert applied == {holder.lane, other.lane}
    names = [each.name for each in await books.store.steps.load(late.id)]
    assert names == ["too", "valid"]
    assert (await books.store.deliveries.get(other.id)).state == "completed"


@pytest.mark.requirement("F8")
async def test_an_outcome_that_is_undone_adds_no_step(books: Books) -> None:
    claimed = await books.claimed()
    transaction = await books.store.begin()
    late = settlement(claimed, Verdict.COMPLETED, START, token=claimed.token + 1)
    with pytest.raises(LeaseLost):
        await transaction.complete(msgspec.structs.replace(late, steps=(step("charge"),)))
    assert await books.count("steps") == 0
    transaction = await books.store.begin()
    right = settlement(claimed, Verdict.COMPLETED, START, steps=(step("charge"),))
    await transaction.complete(right)
    assert await books.count("steps") == 1


@pytest.mark.requirement("F8")
async def test_steps_are_forgotten_with_their_namespace(books: Books) -> None:
    claimed = await books.claimed()
    await books.store.steps.record(claimed, step("charge"))
    await books.store.maintenance.forget("other", BEGINNING, 10)
    assert await books.count("steps") == 1
    await books.store.maintenance.forget("default", BEGINNING, 10)
    assert await books.count("steps") == 0
