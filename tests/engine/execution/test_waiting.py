"""The order of claimed deliveries that wait for a slot."""

from datetime import UTC, datetime

import pytest

from duly.domain.deliveries.delivery import Claimed
from duly.engine.execution.waiting import Waiting

pytestmark = pytest.mark.requirement("D6")
NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)


def claim(token: int, *priorities: int) -> list[Claimed]:
    return [
        Claimed(f"{token}-{n}", "", token, 1, b"", 0, priority, 0, NOW, NOW, None, None, None)
        for n, priority in enumerate(priorities)
    ]


def order(waiting: Waiting) -> list[tuple[int, int]]:
    return [(each.token, each.priority) for each in waiting]


def test_an_urgent_one_goes_before_the_others_which_keep_their_order() -> None:
    waiting = Waiting()
    waiting.join(claim(1, 5, 5), 0.0)
    waiting.join(claim(2, 9, 5, 1), 0.01)
    waiting.join(claim(3, 9), 0.02)
    assert order(waiting) == [(2, 9), (3, 9), (1, 5), (1, 5), (2, 5), (2, 1)]


def test_urgent_ones_do_not_starve_what_was_claimed_long_before() -> None:
    waiting = Waiting()
    waiting.join(claim(1, 1), 0.0)
    for token in range(2, 6):
        waiting.join(claim(token, 9), token * 0.02)
        if token == 2:
            assert order(waiting) == [(2, 9), (1, 1)]
    assert order(waiting) == [(1, 1), (2, 9), (3, 9), (4, 9), (5, 9)]


def test_a_claim_by_turn_begins_with_another_priority() -> None:
    waiting = Waiting()
    waiting.join(claim(1, 1, 9), 0.0)
    assert order(waiting) == [(1, 1), (1, 9)]


def test_only_the_last_ones_are_taken_and_the_order_of_all_stays() -> None:
    waiting = Waiting()
    waiting.join(claim(1, 5, 5), 0.0)
    waiting.join(claim(2, 5, 5), 0.1)
    taken = waiting.take(3, lambda each: each.token == 1)
    assert [each.id for each in taken] == ["1-1"]
    assert [each.id for each in waiting] == ["1-0", "2-0", "2-1"]
    assert len(waiting.take(9, lambda _: True)) == 3
    assert not waiting


def test_what_waits_for_a_quarter_of_a_second_is_late() -> None:
    waiting = Waiting()
    assert not waiting.is_late(99.0)
    waiting.join(claim(1, 5), 1.0)
    assert not waiting.is_late(1.24)
    assert waiting.is_late(1.25)
    waiting.join(claim(2, 5), 9.0)
    assert waiting.is_late(9.0), "its claim is forgotten, so it is old"
