"""Recording steps: only under the token that holds the lane, and only the first of a name."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from duly.domain.deliveries.outcomes import Verdict
from duly.errors import LeaseLost
from duly.records.attempt import Step
from duly.stores.deliveries.maintenance import BEGINNING
from tests.stores.store_probe import START, StoreProbe, settlement

EVERY_VERDICT = [each for each in Verdict if each is not Verdict.EMPTIED]


def step(name: str, result: str = '{"a": "é\\u0000"}', attempt: int = 3) -> Step:
    """A step in which every field differs."""
    done_at = START + timedelta(seconds=7, microseconds=attempt)
    return Step(
        name=name, attempt=attempt, done_at=done_at, result_json=msgspec.Raw(result.encode())
    )


def values(found: Step) -> tuple[object, ...]:
    return found.name, found.attempt, found.done_at, bytes(found.result_json)


@pytest.mark.requirement("F8")
async def test_a_step_is_returned_as_it_was_recorded(probe: StoreProbe) -> None:
    claimed = await probe.claimed()
    given = step("charge")
    assert values(await probe.store.steps.record(claimed, given)) == values(given)
    assert [values(each) for each in await probe.store.steps.load(claimed.id)] == [values(given)]
    assert await probe.store.steps.load((await probe.claimed()).id) == []


@pytest.mark.requirement("F8")
async def test_the_first_step_of_a_name_is_kept(probe: StoreProbe) -> None:
    claimed = await probe.claimed()
    first, second = step("charge"), step("charge", "[2]", attempt=4)
    await probe.store.steps.record(claimed, first)
    assert values(await probe.store.steps.record(claimed, second)) == values(first)
    late = settlement(claimed, Verdict.RETRY, START, steps=(second, step("ship", "null")))
    assert await probe.settle(late) == {claimed.lane}
    found = await probe.store.steps.load(claimed.id)
    assert [values(each) for each in found] == [values(first), values(step("ship", "null"))]


@pytest.mark.requirement("F8", "D7")
@pytest.mark.parametrize("verdict", EVERY_VERDICT)
async def test_steps_are_added_with_every_outcome_and_never_by_a_late_worker(
    probe: StoreProbe, verdict: Verdict
) -> None:
    late, other = await probe.claimed(), await probe.claimed()
    await probe.store.agenda.release(late.token)
    with pytest.raises(LeaseLost):
        await probe.store.steps.record(late, step("at once"))
    (holder,) = await probe.claim(await probe.worker())
    applied = await probe.settle(
        settlement(late, verdict, START, steps=(step("stale"),)),
        settlement(holder, verdict, START, steps=(step("valid"), step("too"))),
        settlement(other, Verdict.COMPLETED, START),
    )
    assert applied == {holder.lane, other.lane}
    names = [each.name for each in await probe.store.steps.load(late.id)]
    assert names == ["too", "valid"]
    assert (await probe.store.deliveries.get(other.id)).state == "completed"


@pytest.mark.requirement("F8")
async def test_an_outcome_that_is_rolled_back_records_no_step(probe: StoreProbe) -> None:
    claimed = await probe.claimed()
    transaction = await probe.store.begin()
    late = settlement(claimed, Verdict.COMPLETED, START, token=claimed.token + 1)
    with pytest.raises(LeaseLost):
        await transaction.complete(msgspec.structs.replace(late, steps=(step("charge"),)))
    assert await probe.count("steps") == 0
    transaction = await probe.store.begin()
    right = settlement(claimed, Verdict.COMPLETED, START, steps=(step("charge"),))
    await transaction.complete(right)
    assert await probe.count("steps") == 1


@pytest.mark.requirement("F8")
async def test_steps_are_deleted_with_their_namespace(probe: StoreProbe) -> None:
    claimed = await probe.claimed()
    await probe.store.steps.record(claimed, step("charge"))
    await probe.store.maintenance.forget("other", BEGINNING, 10)
    assert await probe.count("steps") == 1
    await probe.store.maintenance.forget("default", BEGINNING, 10)
    assert await probe.count("steps") == 0
