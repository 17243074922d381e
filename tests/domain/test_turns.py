"""Turns: which keys give how many lanes to a claim."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.deliveries.delivery import FAIR, LIMIT
from duly.domain.endpoints.gates import NO_LIMITS, TargetLimits
from duly.domain.turns import (
    Shares,
    Visited,
    VisitedKey,
    divide,
    is_short_ahead,
    may_be_held_ahead,
    still_ahead,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TWO = TargetLimits(in_flight=2)


def fair(*keys: str, are_all: bool = True) -> Visited:
    return Visited([VisitedKey(FAIR + key, NOW, None, None, None) for key in keys], NOW, are_all)


def limited(are_all: bool = True, **held: int) -> Visited:
    found = [VisitedKey(LIMIT + key, NOW, 1, many, None) for key, many in held.items()]
    return Visited(found, NOW, are_all)


def shares(divided: Shares) -> dict[str, int]:
    return {each.turn.partition(":")[2]: each.many for each in divided.shares}


@pytest.mark.requirement("P10")
def test_keys_share_a_quota_evenly_and_the_first_get_the_rest() -> None:
    assert shares(divide(fair("a", "b", "c"), 8, NO_LIMITS, NOW)) == {"a": 3, "b": 3, "c": 2}


@pytest.mark.requirement("P10")
def test_keys_beyond_the_quota_are_ahead() -> None:
    divided = divide(fair("a", "b", "c"), 2, NO_LIMITS, NOW)
    assert (shares(divided), divided.after) == ({"a": 1, "b": 1}, FAIR + "b")
    assert divided.ahead is not None
    last = divide(divided.ahead, 2, NO_LIMITS, NOW)
    assert (shares(last), last.after, last.ahead) == ({"c": 2}, "", None)


@pytest.mark.requirement("P10")
def test_the_next_keys_are_read_if_these_are_not_all() -> None:
    divided = divide(fair("a", "b", are_all=False), 9, NO_LIMITS, NOW)
    assert (divided.after, divided.ahead) == (FAIR + "b", None)


@pytest.mark.requirement("P10")
def test_a_key_with_nothing_due_has_no_share() -> None:
    later = VisitedKey(FAIR + "a", NOW + timedelta(seconds=1), None, None, None)
    divided = divide(Visited([later, *fair("b").keys], NOW, True), 4, NO_LIMITS, NOW)
    assert shares(divided) == {"b": 4}


@pytest.mark.requirement("P6")
def test_keys_that_their_limits_hold_back_leave_their_turn_to_the_others() -> None:
    divided = divide(limited(a=2, b=2, c=1, d=0, e=0), 3, TWO, NOW)
    assert shares(divided) == {"c": 1, "d": 1, "e": 1}
    assert divided.again_at is not None
    assert divided.ahead is None


@pytest.mark.requirement("P6")
def test_what_a_key_cannot_take_goes_to_those_after_it() -> None:
    assert shares(divide(limited(a=1, b=0, c=0), 6, TWO, NOW)) == {"a": 1, "b": 2, "c": 2}


@pytest.mark.requirement("P10")
def test_all_keys_have_turns_again_and_again() -> None:
    ring, found = Visited(fair("a", "b", "c").keys, NOW, True, is_ring=True), []
    for _ in range(3):
        divided = divide(ring, 2, NO_LIMITS, NOW)
        found.append(shares(divided))
        assert divided.ahead is not None
        ring = divided.ahead
    assert found == [{"a": 1, "b": 1}, {"c": 2}, {"a": 1, "b": 1}]


@pytest.mark.requirement("P6")
def test_a_claim_counts_again_what_is_in_flight_at_the_next_turns_of_a_limit_key() -> None:
    ring = Visited(limited(a=1).keys, NOW, True, is_ring=True)
    first = divide(ring, 9, TWO, NOW)
    assert first.ahead is not None
    second = divide(first.ahead, 9, TWO, NOW)
    found = [(each.many, each.version, each.in_flight) for each in (*first.shares, *second.shares)]
    assert found == [(1, 1, 2), (2, 2, 2)]


@pytest.mark.requirement("P6")
@pytest.mark.parametrize(
    ("held", "early", "given", "is_full"),
    [
        (0, 20, 6, True),
        (5, 20, 1, True),
        (6, 20, 0, True),
        (0, 6, 6, False),
        (0, 19, 6, True),
        (6, 19, 1, True),
        (5, 17, 3, True),
        (0, 0, 8, False),
        (7, 0, 1, False),
    ],
)
def test_the_last_quarter_of_a_limit_is_for_free_slots(
    held: int, early: int, given: int, is_full: bool
) -> None:
    quota = 6 if early == 6 else 20
    divided = divide(limited(a=held), quota, TargetLimits(in_flight=8), NOW, early)
    assert shares(divided) == ({"a": given} if given else {})
    assert (divided.is_full, divided.again_at) == (is_full, None)


@pytest.mark.requirement("P6")
def test_a_key_without_room_to_hold_ahead_may_have_some_at_its_next_turn() -> None:
    ring, limits = Visited(limited(a=6).keys, NOW, True, is_ring=True), TargetLimits(in_flight=8)
    divided = divide(ring, 4, limits, NOW, early=4)
    assert (divided.shares, divided.is_full) == ([], True)
    assert divided.ahead is not None
    (share,) = divide(divided.ahead, 4, limits, NOW, early=4).shares
    assert (share.many, share.in_flight, share.at_once, share.ahead_to) == (4, 8, 0, 6)


@pytest.mark.requirement("P6")
def test_keys_without_room_to_hold_ahead_leave_it_to_the_others() -> None:
    divided = divide(limited(a=6, b=0, c=7), 7, TargetLimits(in_flight=8), NOW, early=6)
    assert shares(divided) == {"a": 1, "b": 3}
    ahead = divide(limited(a=6, b=0, c=7), 6, TargetLimits(in_flight=8), NOW, early=6)
    assert shares(ahead) == {"b": 6}


@pytest.mark.requirement("P6")
def test_what_has_a_rate_or_runs_alone_is_not_held_ahead() -> None:
    limits = TargetLimits(rate=1000.0, in_flight=100)
    assert shares(divide(limited(a=0), 50, limits, NOW, early=48)) == {"a": 2}
    found = [TargetLimits(), TargetLimits(in_flight=2), TargetLimits(in_flight=1), limits]
    assert [may_be_held_ahead(each) for each in found] == [True, True, False, False]


@pytest.mark.requirement("P10")
def test_a_fair_key_that_gave_too_little_has_no_further_turn_until_keys_are_read_again() -> None:
    divided = divide(Visited(fair("a", "b").keys, NOW, True, is_ring=True), 8, NO_LIMITS, NOW)
    assert divided.ahead is not None
    left = still_ahead(divided.ahead, divided.shares, {FAIR + "a": 1, FAIR + "b": 4})
    assert left is not None
    assert shares(divide(left, 8, NO_LIMITS, NOW)) == {"b": 8}


@pytest.mark.requirement("P6")
@pytest.mark.parametrize(("claimed", "goes_on"), [(8, True), (1, True), (0, False)])
def test_a_limit_key_that_gave_nothing_is_read_again(claimed: int, goes_on: bool) -> None:
    ring = Visited(limited(a=0).keys, NOW, True, is_ring=True)
    divided = divide(ring, 8, TargetLimits(in_flight=99), NOW)
    assert divided.ahead is not None
    found = still_ahead(divided.ahead, divided.shares, {LIMIT + "a": claimed})
    assert found == (divided.ahead if goes_on else None)


@pytest.mark.requirement("P10")
@pytest.mark.parametrize(("claimed", "goes_on"), [(2, True), (1, True), (0, False)])
def test_keys_that_others_claim_too_are_read_again(claimed: int, goes_on: bool) -> None:
    divided = divide(fair("a", "b", "c"), 2, NO_LIMITS, NOW)
    assert divided.ahead is not None
    found = still_ahead(divided.ahead, divided.shares, {FAIR + "a": claimed})
    assert found == (divided.ahead if goes_on else None)


@pytest.mark.requirement("P6")
def test_a_key_that_gives_less_ahead_than_was_asked_has_no_more() -> None:
    (share,) = divide(limited(a=0), 6, TargetLimits(in_flight=8), NOW, early=4).shares
    assert [is_short_ahead(share, claimed) for claimed in (0, 2, 5, 6)] == [True, True, True, False]
    (share,) = divide(limited(a=0), 6, TargetLimits(in_flight=8), NOW).shares
    assert not is_short_ahead(share, 0)
    assert not is_short_ahead(divide(fair("a"), 6, NO_LIMITS, NOW, early=6).shares[0], 0)


@pytest.mark.requirement("P6")
def test_a_claim_counts_for_the_rate_of_a_limit_key() -> None:
    ring, limits = Visited(limited(a=0).keys, NOW, True, is_ring=True), TargetLimits(rate=10.0)
    started, now = 0, NOW
    for _ in range(100):
        divided = divide(ring, 5, limits, now)
        started += sum(each.many for each in divided.shares)
        ring = divided.ahead or ring
        now += timedelta(milliseconds=50)
    assert 49 <= started <= 52
