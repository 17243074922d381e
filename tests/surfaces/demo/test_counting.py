"""What counts as arrived, late, lost, doubled and out of order in the demo."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.surfaces.cli.demo.counting import DemoResult, Item, Kind, Outage, Request, counted

KILLED_AT = datetime(2026, 11, 17, 12, 0, 10, tzinfo=UTC)
RESTARTED_AT = KILLED_AT + timedelta(seconds=6)
DUE_AT = KILLED_AT - timedelta(seconds=4)
BEFORE, AFTER = KILLED_AT - timedelta(seconds=1), RESTARTED_AT + timedelta(seconds=3)
ACCEPTED = {Kind.ORDERS: 2}
FIRST = Item(Kind.ORDERS, "0", "s", 0)
SECOND = Item(Kind.ORDERS, "1", "s", 1)


def count(*requests: Request, completed: tuple[str, ...] = ()) -> DemoResult:
    outage = Outage(KILLED_AT, RESTARTED_AT, frozenset(completed))
    return counted(ACCEPTED, requests, outage, {"a": DUE_AT, "b": DUE_AT, "c": DUE_AT})


@pytest.mark.requirement("D4")
def test_one_before_the_kill_and_one_after_it_is_a_success() -> None:
    found = count(Request(BEFORE, "a", FIRST), Request(AFTER, "b", SECOND), completed=("a",))
    assert found.ok
    assert (found.arrived, found.late, found.lost, found.doubled) == (2, 1, 0, 0)
    assert (found.longest_late_seconds, found.seconds_away, found.sent_again) == (13.0, 6.0, 0)


@pytest.mark.requirement("D4")
def test_a_missing_delivery_is_lost() -> None:
    found = count(Request(BEFORE, "a", FIRST))
    assert (found.ok, found.lost, found.arrived) == (False, 1, 1)


@pytest.mark.requirement("D4")
def test_one_that_was_being_sent_may_come_again_with_its_id() -> None:
    requests = Request(BEFORE, "a", FIRST), Request(AFTER, "a", FIRST), Request(AFTER, "b", SECOND)
    found = count(*requests)
    assert (found.ok, found.sent_again, found.doubled) == (True, 1, 0)
    # It was received before the kill, so it was not late.
    assert found.late == 1


@pytest.mark.requirement("D4")
def test_a_completed_one_must_not_come_again() -> None:
    requests = Request(BEFORE, "a", FIRST), Request(AFTER, "a", FIRST), Request(AFTER, "b", SECOND)
    found = count(*requests, completed=("a",))
    assert (found.ok, found.doubled, found.sent_again) == (False, 1, 0)


@pytest.mark.requirement("D4")
def test_a_repeat_that_no_crash_explains_is_doubled() -> None:
    found = count(*[Request(AFTER, "a", FIRST)] * 2, Request(AFTER, "b", SECOND))
    assert (found.ok, found.doubled, found.sent_again) == (False, 1, 0)


@pytest.mark.requirement("D4")
def test_the_same_item_with_another_id_is_doubled() -> None:
    requests = Request(BEFORE, "a", FIRST), Request(AFTER, "b", SECOND), Request(AFTER, "c", SECOND)
    assert (count(*requests).ok, count(*requests).doubled) == (False, 1)


@pytest.mark.requirement("C1")
def test_an_item_that_nobody_accepted_is_doubled() -> None:
    third = Request(AFTER, "c", Item(Kind.ORDERS, "2", "s", 2))
    found = count(Request(BEFORE, "a", FIRST), Request(AFTER, "b", SECOND), third)
    assert (found.ok, found.doubled) == (False, 1)


@pytest.mark.requirement("F5")
def test_a_stream_that_was_overtaken_is_out_of_order() -> None:
    found = count(Request(BEFORE, "b", SECOND), Request(AFTER, "a", FIRST))
    assert (found.ok, found.out_of_order, found.lost) == (False, 1, 0)


@pytest.mark.requirement("C6")
def test_a_wrong_signature_is_not_ok() -> None:
    unsigned = Request(AFTER, "b", SECOND, verified=False)
    found = count(Request(BEFORE, "a", FIRST), unsigned)
    assert (found.ok, found.not_verified) == (False, 1)
