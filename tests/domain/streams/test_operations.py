"""The states of a stream, and the operations that are allowed in each."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from duly.domain.streams import operations
from duly.domain.streams.operations import HeadAction, Member, Return
from duly.domain.streams.stream import StreamRow, plight, stream_of, to_do
from duly.errors import Conflict
from duly.records.stream import StreamState

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
HEADED: dict[str, Any] = {
    "head": "h",
    "position": 4,
    "due_at": LATER,
    "head_state": "pending",
    "attempt": 0,
}


def line(**changes: Any) -> StreamRow:
    return StreamRow(lane=1, name="it's", **changes)


LINES = {
    StreamState.IDLE: line(),
    StreamState.WAITING: line(**HEADED),
    StreamState.RUNNING: line(**HEADED | {"token": 7}),
    StreamState.RETRYING: line(**HEADED | {"attempt": 2}),
    StreamState.BLOCKED: line(
        **HEADED | {"head_state": "dead", "halted": "blocked", "halted_at": NOW, "attempt": 3}
    ),
    StreamState.PAUSED: line(
        **HEADED | {"halted": "paused", "paused_at": NOW, "pause_reason": "holidays"}
    ),
}
FATES = {
    "retry_now": {
        StreamState.WAITING: HeadAction.HURRIED,
        StreamState.RETRYING: HeadAction.HURRIED,
        StreamState.BLOCKED: HeadAction.RAISED,
    },
    "release": {StreamState.RETRYING: HeadAction.APART, StreamState.BLOCKED: HeadAction.LEFT},
    "dead_letter_head": {
        StreamState.WAITING: HeadAction.MADE_DEAD,
        StreamState.RETRYING: HeadAction.MADE_DEAD,
        StreamState.PAUSED: HeadAction.MADE_DEAD,
    },
}


@pytest.mark.parametrize("state", StreamState)
def test_each_state_is_recognized(state: StreamState) -> None:
    assert LINES[state].state is state
    assert stream_of(LINES[state]).state is state


@pytest.mark.requirement("F7")
@pytest.mark.parametrize("state", StreamState)
@pytest.mark.parametrize("move", FATES)
def test_each_operation_in_each_state(move: str, state: StreamState) -> None:
    decide: Any = getattr(operations, move)
    given = (LINES[state], "note") if move == "dead_letter_head" else (LINES[state],)
    expected = FATES[move].get(state)
    if expected is None:
        with pytest.raises(Conflict, match=f'stream "it\'s" is {state}; .*; '):
            decide(*given)
    else:
        change = decide(*given)
        assert (change.action, change.line.halted) == (expected, given[0].halted and _left(state))


def _left(state: StreamState) -> str | None:
    """What still stops a stream after an operation: a pause, but no dead head."""
    return "paused" if state is StreamState.PAUSED else None


@pytest.mark.parametrize("state", StreamState)
def test_pausing_and_resuming_change_nothing_else(state: StreamState) -> None:
    before = LINES[state]
    paused = operations.pause(before, LATER, "because").line
    since = NOW if state is StreamState.PAUSED else LATER
    assert (paused.paused_at, paused.pause_reason) == (since, "because")
    resumed = operations.resume(paused).line
    assert resumed == msgspec.structs.replace(before, paused_at=None, pause_reason=None)


@pytest.mark.parametrize("state", StreamState)
def test_the_remedy_has_a_command_that_can_be_pasted(state: StreamState) -> None:
    described = to_do(LINES[state])
    commands = described.split("`")[1::2]
    assert bool(commands) is (state is not StreamState.IDLE)
    for command in commands:
        assert command.startswith("duly ")
        assert "'it'\"'\"'s'" in command or command == "duly deliveries cancel h"


def test_the_cause_of_a_stopped_stream_is_described() -> None:
    described = {state: plight(found) for state, found in LINES.items()}
    assert described == {
        StreamState.IDLE: "idle",
        StreamState.WAITING: "behind delivery h (due at 2026-03-01 12:05:00Z)",
        StreamState.RUNNING: "behind delivery h (processing)",
        StreamState.RETRYING: "behind delivery h (retrying, next at 2026-03-01 12:05:00Z)",
        StreamState.BLOCKED: "blocked by delivery h (dead since 2026-03-01 12:00:00Z)",
        StreamState.PAUSED: "paused since 2026-03-01 12:00:00Z (holidays)",
    }


def test_a_head_is_due_unless_its_stream_is_stopped_or_running() -> None:
    due = {
        state: head.next_at
        for state, found in LINES.items()
        if (head := stream_of(found).head) is not None
    }
    assert due == {
        StreamState.WAITING: LATER,
        StreamState.RUNNING: None,
        StreamState.RETRYING: LATER,
        StreamState.BLOCKED: None,
        StreamState.PAUSED: None,
    }


def member(position: int, id: str = "m", state: str = "dead") -> Member:
    return Member(id, "it's", 1, position, state)


@pytest.mark.requirement("F4", "F5")
@pytest.mark.parametrize(
    ("state", "its", "expected"),
    [
        (StreamState.IDLE, member(2), Return.LEADS),
        (StreamState.WAITING, member(2), Return.LEADS),
        (StreamState.WAITING, member(9), Return.WAITS),
        (StreamState.RETRYING, member(2), Return.LEADS),
        (StreamState.RETRYING, member(9), Return.WAITS),
        (StreamState.RUNNING, member(2), Return.REPLAYED),
        (StreamState.RUNNING, member(9), Return.REPLAYED),
        (StreamState.BLOCKED, member(4, "h"), Return.LEADS),
        (StreamState.BLOCKED, member(2), Return.REPLAYED),
        (StreamState.BLOCKED, member(9), Return.WAITS),
        (StreamState.PAUSED, member(2), Return.LEADS),
        (StreamState.PAUSED, member(9), Return.WAITS),
    ],
)
def test_a_retried_dead_letter_returns_before_those_after_it(
    state: StreamState, its: Member, expected: Return
) -> None:
    assert operations.comes_back(LINES[state], [its]) is expected


@pytest.mark.requirement("F4", "F5")
@pytest.mark.parametrize(
    ("state", "its", "expected"),
    [
        (StreamState.WAITING, [member(2), member(9)], Return.LEADS),
        (StreamState.RUNNING, [member(2), member(9)], Return.REPLAYED),
        (StreamState.BLOCKED, [member(2), member(4, "h")], Return.LEADS),
        (StreamState.BLOCKED, [member(4, "h"), member(9)], Return.LEADS),
        (StreamState.BLOCKED, [member(2), member(9)], Return.REPLAYED),
        (StreamState.BLOCKED, [member(8), member(9)], Return.WAITS),
    ],
)
def test_several_retried_dead_letters_return_from_the_first_position(
    state: StreamState, its: list[Member], expected: Return
) -> None:
    assert operations.comes_back(LINES[state], its) is expected


@pytest.mark.requirement("F4", "F6")
@pytest.mark.parametrize("state", StreamState)
def test_only_the_discard_of_a_blocking_head_releases_the_others(
    state: StreamState,
) -> None:
    change = operations.discard(LINES[state], member(4, "h"), "why")
    if state is StreamState.BLOCKED:
        assert change is not None
        assert (change.action, change.line.halted, change.note) == (
            HeadAction.DISCARDED,
            None,
            "why",
        )
    else:
        assert change is None
    assert operations.discard(LINES[state], member(9), "why") is None


@pytest.mark.parametrize(
    ("state", "its", "goes"),
    [
        (StreamState.WAITING, member(4, "h", "pending"), True),
        (StreamState.RETRYING, member(4, "h", "pending"), True),
        (StreamState.RETRYING, member(2, "m", "pending"), True),
        (StreamState.RETRYING, member(9, "m", "pending"), False),
        (StreamState.RUNNING, member(9, "m", "pending"), False),
        (StreamState.BLOCKED, member(9, "m", "pending"), False),
        (StreamState.PAUSED, member(4, "h", "pending"), False),
    ],
)
def test_only_the_first_delivery_can_be_due_now(
    state: StreamState, its: Member, goes: bool
) -> None:
    if goes:
        operations.refuse_if_behind(LINES[state], its)
    else:
        with pytest.raises(Conflict, match=r"waits in stream \"it's\", (behind|blocked|paused)"):
            operations.refuse_if_behind(LINES[state], its)


def test_a_delivery_that_may_be_running_cannot_be_cancelled() -> None:
    running, waiting = LINES[StreamState.RUNNING], LINES[StreamState.WAITING]
    with pytest.raises(Conflict, match="is being run with its stream"):
        operations.cancels_head(running, member(5), in_run=True)
    assert not operations.cancels_head(running, member(50), in_run=False)
    assert not operations.cancels_head(waiting, member(5), in_run=False)
    assert operations.cancels_head(waiting, member(4, "h"), in_run=False)


def test_a_stream_begins_at_a_delivery_that_was_put_back() -> None:
    found = LINES[StreamState.WAITING]
    assert found.beginning == 4
    assert msgspec.structs.replace(found, replay_from=2).beginning == 2
    assert msgspec.structs.replace(found, replay_from=9).beginning == 4
