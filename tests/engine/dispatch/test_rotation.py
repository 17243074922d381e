"""How long a worker uses keys that it read ahead."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.deliveries.delivery import FAIR
from duly.domain.turns import Visited, VisitedKey
from duly.engine.dispatch.rotation import FRESH, Group, Rotation
from duly.engine.store_clock import StoreClock
from duly.engine.work_signal import WorkSignal
from duly.ports import ClaimableGroup, Round
from duly.testing import VirtualClock

pytestmark = pytest.mark.requirement("P10")
NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
GROUP = Group(5, 1, True)
AHEAD = Visited([VisitedKey(FAIR + "b", NOW, None, None, None)], NOW, are_all=True)


def rotation() -> tuple[Rotation, VirtualClock]:
    clock = VirtualClock(NOW)
    found = Rotation(WorkSignal(), StoreClock(clock))
    found.learn([ClaimableGroup(5, 1, NOW, turns=True)])
    found.note([Round(5, 1, 1, FAIR + "a", ahead=AHEAD)])
    return found, clock


def test_keys_read_ahead_are_used_for_a_moment() -> None:
    found, clock = rotation()
    ask = found.ask(GROUP, NOW, 9)
    assert (ask.ahead, ask.now_at, ask.after) == (AHEAD, NOW, FAIR + "a")
    clock.advance(FRESH.total_seconds())
    ask = found.ask(GROUP, NOW, 9)
    assert (ask.ahead, ask.now_at, ask.after) == (None, None, FAIR + "a")


def test_keys_read_at_a_later_moment_are_not_used() -> None:
    found, _ = rotation()  # the store's clock was stepped back
    later = Visited(AHEAD.keys, NOW + timedelta(seconds=1), are_all=True)
    found.note([Round(5, 1, 1, FAIR + "a", ahead=later)])
    assert found.ask(GROUP, NOW, 9).ahead is None


def test_keys_are_read_again_after_a_hint() -> None:
    found, _ = rotation()
    found.wake()
    assert found.ask(GROUP, NOW, 9).ahead is None


def test_the_last_keys_read_ahead_do_not_share_a_large_claim_alone() -> None:
    found, _ = rotation()
    some = Visited([VisitedKey(FAIR + key, NOW, None, None, None) for key in "bc"], NOW, False)
    found.note([Round(5, 1, 1, FAIR + "a", ahead=some)])
    assert [found.ask(GROUP, NOW, quota).ahead for quota in (2, 3)] == [some, None]


@pytest.mark.requirement("P6")
def test_a_round_without_more_to_hold_ahead_goes_on_for_free_slots() -> None:
    found, _ = rotation()
    for is_full in (False, True):
        found.note([Round(5, 1, 0, "", is_full=False), Round(5, 1, 0, "", is_full=is_full)])
        assert found.goes_on(GROUP) == found.is_full(GROUP) == is_full
        assert found.rests_until(GROUP) is None
