"""The states of a delivery and the allowed moves between them."""

from __future__ import annotations

from duly.errors import InvalidInput, quoted
from duly.records.state import State

MOVES: dict[State, frozenset[State]] = {
    State.PENDING: frozenset({State.PROCESSING, State.CANCELLED, State.DEAD}),
    State.PROCESSING: frozenset({State.PENDING, State.COMPLETED, State.DEAD, State.CANCELLED}),
    State.DEAD: frozenset({State.PENDING, State.CANCELLED}),
    State.COMPLETED: frozenset(),
    State.CANCELLED: frozenset(),
}

FINISHED = frozenset({State.COMPLETED, State.DEAD, State.CANCELLED})


def may_move(before: State, after: State) -> bool:
    """Whether a delivery may move from one state to the other."""
    return after in MOVES[before]


def checked_state(value: State | str) -> State:
    """A state by its name."""
    try:
        return State(value)
    except ValueError:
        raise InvalidInput("state", f"{quoted(value)} is none of {', '.join(State)}") from None
