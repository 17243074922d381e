"""The ids and tokens that duly makes."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.checks import checked_beginning
from duly.domain.deliveries.identifiers import CLAIMS_PER_WORKER, delivery_id, token, worker_of
from duly.errors import InvalidInput
from duly.system import SystemChance
from duly.testing import VirtualClock

moments = st.integers(0, 2**48 - 1)
chances = st.integers(0, 2**74 - 1)


@given(moments, chances, moments, chances)
def test_ids_sort_by_time_then_by_their_random_part(
    moment: int, chance: int, later: int, other: int
) -> None:
    first, second = delivery_id(moment, chance), delivery_id(later, other)
    assert (first < second) == ((moment, chance) < (later, other))


@given(moments, chances)
def test_an_id_is_a_uuid_of_version_seven(moment: int, chance: int) -> None:
    found = uuid.UUID(delivery_id(moment, chance))
    assert (found.version, found.variant) == (7, uuid.RFC_4122)
    assert found.int >> 80 == moment
    assert str(found) == delivery_id(moment, chance)


@given(st.integers(1, 2**30), st.integers(0, CLAIMS_PER_WORKER - 1))
def test_a_token_contains_its_worker(worker: int, claim: int) -> None:
    assert worker_of(token(worker, claim)) == worker
    assert token(worker, claim) < 2**63


def test_ids_of_one_process_never_go_back() -> None:
    clock = VirtualClock(datetime(2026, 5, 1, tzinfo=UTC))
    chance = SystemChance(lambda: int(clock.now().timestamp() * 1000))
    ids = []
    for _ in range(50):
        ids += [chance.delivery_id() for _ in range(20)]
        clock.advance(timedelta(microseconds=700))
    assert ids == sorted(set(ids))


def test_ids_do_not_go_back_with_the_clock() -> None:
    moments = iter([1_780_000_000_000, 1_770_000_000_000])  # the machine's clock was set back
    chance = SystemChance(lambda: next(moments))
    before = chance.delivery_id()
    assert chance.delivery_id() > before


def test_the_prefix_of_an_id_has_at_least_four_characters() -> None:
    assert checked_beginning("01A1-e5") == "01a1e5"
    with pytest.raises(InvalidInput, match="is too short; give 4 characters"):
        checked_beginning("01a")
