"""How a worker shares its free slots among waiting groups."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly.domain.deliveries.delivery import ALONE, Claimed
from duly.engine.dispatch.claimable_work import FIRST_LOOK_EVERY, ClaimableWork
from duly.engine.dispatch.rotation import Rotation
from duly.engine.store_clock import StoreClock
from duly.engine.targets.pace import AHEAD_SECONDS, Pace
from duly.engine.work_signal import WorkSignal
from duly.ports import ClaimableGroup, ClaimRequest
from duly.testing import VirtualClock
from tests.engine.cluster import admission, directory

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
EARLIER, LATER = NOW - timedelta(minutes=1), NOW + timedelta(minutes=1)


class NoStore:
    """Gates that must not use the store."""

    async def revise(self, *_: Any) -> dict[int, Any]:
        raise AssertionError("the store was used")


def work_with(
    *groups: tuple[int, int, datetime], targets: Iterable[int] = (1, 2, 3)
) -> ClaimableWork:
    agenda: Any = None
    names = {number: f"work-{number}" for number in targets}
    gates = admission(NoStore(), names, concurrency=10)
    clock, signal = StoreClock(VirtualClock(NOW)), WorkSignal()
    rotation, pace = Rotation(signal, clock), Pace(clock.monotonic)
    found = ClaimableWork(agenda, directory(names), gates, signal, clock, rotation, pace, 20)
    found.learn([ClaimableGroup(*each) for each in groups])
    return found


def claimed(priority: int, target: int, ready_at: datetime) -> Claimed:
    return Claimed(
        "id", "lane", 1, target, b"", 0, priority, 0, EARLIER, ready_at, None, None, None
    )


def test_higher_priorities_are_claimed_first() -> None:
    groups = work_with((2, 1, EARLIER), (9, 1, NOW), (5, 1, EARLIER))
    assert groups.asks(10, NOW) == [
        ClaimRequest(9, 1, NOW, 10),
        ClaimRequest(5, 1, EARLIER, 10),
        ClaimRequest(2, 1, EARLIER, 10),
    ]


def test_targets_of_one_priority_share_evenly() -> None:
    groups = work_with((5, 1, NOW), (5, 2, NOW), (5, 3, NOW))
    assert {ask.quota for ask in groups.asks(10, NOW)} == {4}


def test_no_priority_starves() -> None:
    groups = work_with((9, 1, NOW), (5, 1, NOW), (1, 1, NOW))
    rounds = 3 * FIRST_LOOK_EVERY
    first = [groups.asks(1, NOW)[0].priority for _ in range(rounds)]
    assert set(first) == {9, 5, 1}
    assert first.count(9) > rounds / 2


def test_groups_that_are_not_due_or_not_served_are_not_claimed() -> None:
    groups = work_with((9, 1, LATER), (5, 77, EARLIER))
    assert groups.asks(10, NOW) == []
    assert groups.next_due() == LATER
    assert work_with().next_due() is None


def test_suspects_are_claimed_alone() -> None:
    groups = work_with((ALONE, 2, EARLIER), (9, 1, EARLIER))
    assert groups.has_suspects(NOW)
    assert groups.suspect(NOW) == [ClaimRequest(ALONE, 2, EARLIER, 1)]
    assert [ask.priority for ask in groups.asks(5, NOW)] == [9]
    assert not work_with((ALONE, 2, LATER)).has_suspects(NOW)


def test_a_claim_that_filled_all_slots_leaves_more_to_claim() -> None:
    groups = work_with((5, 1, EARLIER))
    requests = groups.asks(2, NOW)
    assert groups.note(requests, [claimed(5, 1, EARLIER), claimed(5, 1, NOW)], 2)
    assert groups.asks(2, NOW) == [ClaimRequest(5, 1, NOW, 2)]


def test_a_group_that_returned_too_few_is_empty() -> None:
    groups = work_with((5, 1, EARLIER), (5, 2, EARLIER))
    requests = groups.asks(4, NOW)
    assert groups.note(requests, [claimed(5, 1, EARLIER), claimed(5, 1, NOW)], 4)
    requests = groups.asks(4, NOW)
    assert requests == [ClaimRequest(5, 1, NOW, 4)]
    assert not groups.note(requests, [claimed(5, 1, NOW)], 4)
    assert groups.next_due() is None


@pytest.mark.parametrize("returned", [0, 1])
def test_a_claim_that_returned_too_few_has_no_more(returned: int) -> None:
    groups = work_with((5, 1, EARLIER))
    requests = groups.asks(4, NOW)
    assert not groups.note(requests, [claimed(5, 1, EARLIER)] * returned, 4)


@pytest.mark.requirement("C8")
def test_with_more_targets_than_slots_each_gets_its_turn() -> None:
    found = work_with(*((5, target, NOW) for target in range(20)), targets=range(20))
    requests = [ask for _ in range(10) for ask in found.asks(4, NOW)]
    assert {ask.quota for ask in requests} == {1}
    assert [sum(ask.target == target for ask in requests) for target in range(20)] == [2] * 20


def hasten(work: ClaimableWork, paces: dict[int, int]) -> None:
    """Let the targets be so fast that so many of each may be held ahead."""
    work._pace._rates = {target: many / AHEAD_SECONDS for target, many in paces.items()}


@pytest.mark.requirement("P10")
def test_lanes_with_and_without_keys_share_what_is_claimed_ahead() -> None:
    found = work_with((5, 1, NOW))
    found.learn([ClaimableGroup(5, 1, NOW), ClaimableGroup(5, 1, NOW, turns=True)])
    hasten(found, {1: 100})
    with_keys, without = [ask.quota for ask in found.asks(105, NOW)]
    assert with_keys == without
    assert 100 < with_keys + without <= 106


@pytest.mark.requirement("D6")
def test_targets_ask_for_no_more_ahead_than_there_is() -> None:
    targets = range(1, 31)
    found = work_with(*((5, each, NOW) for each in targets), targets=targets)
    hasten(found, dict.fromkeys(targets, 3))
    asked = sum(ask.quota for ask in found.asks(95, NOW))
    assert asked <= 95 + len(targets)
