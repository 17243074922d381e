"""The transitions between the states of a delivery."""

import pytest

from duly.domain.deliveries.states import FINISHED, MOVES, may_move
from duly.records.state import State

pytestmark = pytest.mark.requirement("D8")

DRAWN = {
    ("pending", "processing"),
    ("pending", "cancelled"),
    ("pending", "dead"),
    ("processing", "pending"),
    ("processing", "completed"),
    ("processing", "dead"),
    ("processing", "cancelled"),
    ("dead", "pending"),
    ("dead", "cancelled"),
}


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", State)
def test_only_transitions_in_the_drawing_are_allowed(before: State, after: State) -> None:
    assert may_move(before, after) == ((before, after) in DRAWN)


def test_a_finished_delivery_changes_only_by_a_retry_or_a_discard() -> None:
    assert {state: set(MOVES[state]) for state in FINISHED} == {
        State.COMPLETED: set(),
        State.CANCELLED: set(),
        State.DEAD: {State.PENDING, State.CANCELLED},
    }
