"""How a worker shares its free slots among what waits."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly.domain.deliveries.delivery import ALONE, Claimed
from duly.engine.dispatch.claimable_work import FIRST_LOOK_EVERY, ClaimableWork
from duly.engine.store_clock import StoreClock
from duly.engine.work_signal import WorkSignal
from duly.ports import ClaimableGroup, ClaimRequest
from duly.testing import VirtualClock
from tests.engine.house import admission, directory

NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
EARLIER, LATER = NOW - timedelta(minutes=1), NOW + timedelta(minutes=1)


class NoStore:
    """Gates that nobody may ask the store about."""

    async def revise(self, *_: Any) -> dict[int, Any]:
        raise AssertionError("the store was asked")


def learned(
    *openings: tuple[int, int, datetime], targets: Iterable[int] = (1, 2, 3)
) -> ClaimableWork:
    agenda: Any = None
    names = {number: f"work-{number}" for number in targets}
    gates = admission(NoStore(), names, concurrency=10)
    clock = StoreClock(VirtualClock(NOW))
    found = ClaimableWork(agenda, directory(names), gates, WorkSignal(), clock)
    found.learn([ClaimableGroup(*each) for each in openings])
    return found


def claimed(priority: int, target: int, ready_at: datetime) -> Claimed:
    return Claimed(
        "id", "lane", 1, target, b"", 0, priority, 0, EARLIER, ready_at, None, None, None
    )


def test_higher_priorities_are_asked_for_first() -> None:
    openings = learned((2, 1, EARLIER), (9, 1, NOW), (5, 1, EARLIER))
    assert openings.asks(10, NOW) == [
        ClaimRequest(9, 1, NOW, 10),
        ClaimRequest(5, 1, EARLIER, 10),
        ClaimRequest(2, 1, EARLIER, 10),
    ]


def test_targets_of_one_priority_share_evenly() -> None:
    openings = learned((5, 1, NOW), (5, 2, NOW), (5, 3, NOW))
    assert {ask.quota for ask in openings.asks(10, NOW)} == {4}


def test_no_level_starves() -> None:
    openings = learned((9, 1, NOW), (5, 1, NOW), (1, 1, NOW))
    rounds = 3 * FIRST_LOOK_EVERY
    first = [openings.asks(1, NOW)[0].priority for _ in range(rounds)]
    assert set(first) == {9, 5, 1}
    assert first.count(9) > rounds / 2


def test_what_is_not_due_or_not_served_is_not_asked_for() -> None:
    openings = learned((9, 1, LATER), (5, 77, EARLIER))
    assert openings.asks(10, NOW) == []
    assert openings.next_due() == LATER
    assert learned().next_due() is None


def test_what_must_run_alone_is_asked_for_alone() -> None:
    openings = learned((ALONE, 2, EARLIER), (9, 1, EARLIER))
    assert openings.has_suspects(NOW)
    assert openings.suspect(NOW) == [ClaimRequest(ALONE, 2, EARLIER, 1)]
    assert [ask.priority for ask in openings.asks(5, NOW)] == [9]
    assert not learned((ALONE, 2, LATER)).has_suspects(NOW)


def test_a_claim_that_filled_all_slots_leaves_more_to_come() -> None:
    openings = learned((5, 1, EARLIER))
    asked = openings.asks(2, NOW)
    assert openings.note(asked, [claimed(5, 1, EARLIER), claimed(5, 1, NOW)], 2)
    assert openings.asks(2, NOW) == [ClaimRequest(5, 1, NOW, 2)]


def test_an_opening_that_came_short_is_empty() -> None:
    openings = learned((5, 1, EARLIER), (5, 2, EARLIER))
    asked = openings.asks(4, NOW)
    assert openings.note(asked, [claimed(5, 1, EARLIER), claimed(5, 1, NOW)], 4)
    asked = openings.asks(4, NOW)
    assert asked == [ClaimRequest(5, 1, NOW, 4)]
    assert not openings.note(asked, [claimed(5, 1, NOW)], 4)
    assert openings.next_due() is None


@pytest.mark.parametrize("brought", [0, 1])
def test_a_claim_for_nothing_more_says_so(brought: int) -> None:
    openings = learned((5, 1, EARLIER))
    asked = openings.asks(4, NOW)
    assert not openings.note(asked, [claimed(5, 1, EARLIER)] * brought, 4)


@pytest.mark.requirement("C8")
def test_of_more_targets_than_slots_each_gets_its_turn() -> None:
    found = learned(*((5, target, NOW) for target in range(20)), targets=range(20))
    asked = [ask for _ in range(10) for ask in found.asks(4, NOW)]
    assert {ask.quota for ask in asked} == {1}
    assert [sum(ask.target == target for ask in asked) for target in range(20)] == [2] * 20
