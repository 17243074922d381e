"""When a limited block ends, and which deliveries an operator may release."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from duly.domain.monitoring.alerts import MOST_STREAMS, stream_released
from duly.domain.streams import operations
from duly.domain.streams.operations import HeadAction, Member
from duly.domain.streams.selection import (
    MOST_RELEASED,
    Selection,
    checked_selection,
    refuse_unless_behind,
    released,
)
from duly.errors import Conflict, InvalidInput
from duly.records.stream import StreamState
from tests.domain.streams.test_operations import LINES, NOW

pytestmark = pytest.mark.requirement("L4")
SECOND = timedelta(seconds=1)
ENDS = {
    StreamState.BLOCKED: HeadAction.LEFT,
    StreamState.RETRYING: HeadAction.APART,
    StreamState.WAITING: HeadAction.APART,
}
"""What happens to the head when its time is over; in other states nothing does."""


@pytest.mark.parametrize("state", StreamState)
def test_a_block_ends_when_its_time_is_over(state: StreamState) -> None:
    line = msgspec.structs.replace(LINES[state], unblocks_at=NOW)
    assert operations.end_block(line, NOW - SECOND) is None
    assert operations.end_block(LINES[state], NOW) is None, "without a limit"
    change = operations.end_block(line, NOW)
    assert (change and change.action) == ENDS.get(state)


@pytest.mark.parametrize("state", StreamState)
def test_followers_are_released_only_behind_a_failed_head(state: StreamState) -> None:
    members = [Member("m", "it's", 1, 5, "pending")]
    chosen = Selection("only", ("m",))
    if state in (StreamState.BLOCKED, StreamState.RETRYING):
        refuse_unless_behind(LINES[state], chosen, members)
    else:
        with pytest.raises(Conflict, match=f'stream "it\'s" is {state}; '):
            refuse_unless_behind(LINES[state], chosen, members)


@pytest.mark.parametrize(
    "member",
    [
        Member("m", "it's", 1, 5, "completed"),
        Member("m", "it's", None, 5, "pending"),
        Member("m", "another", 2, 5, "pending"),
    ],
    ids=["it is done", "it has left the queue", "it is in another stream"],
)
def test_what_does_not_wait_behind_the_head_is_refused(member: Member) -> None:
    with pytest.raises(InvalidInput, match="keep: m does not wait in stream"):
        refuse_unless_behind(LINES[StreamState.BLOCKED], Selection("keep", ("m",)), [member])


def test_all_but_the_kept_are_released_up_to_a_limit() -> None:
    line, chosen = LINES[StreamState.BLOCKED], Selection("keep", ("1",))
    followers = [str(n) for n in range(MOST_RELEASED + 1)]
    assert released(line, chosen, followers) == ["0", *followers[2:]]
    with pytest.raises(InvalidInput, match=r"more than 10,000 others wait"):
        released(line, chosen, [*followers, "last"])


@pytest.mark.parametrize(("only", "keep"), [(None, None), (["x"], ["x"])])
def test_a_selection_has_one_field_or_none(only: Any, keep: Any) -> None:
    if only is None:
        assert checked_selection(only, keep) is None
    else:
        with pytest.raises(InvalidInput, match="keep: give only or keep, not both"):
            checked_selection(only, keep)


def test_one_alert_reports_the_streams_that_have_none_of_their_own() -> None:
    known = [f"s{n}" for n in range(MOST_STREAMS)]
    assert stream_released("new", "h", 90, known[1:]).subject == "new"
    assert stream_released("new", "h", 90, known).subject == ""
    assert stream_released("s0", "h", 90, known).subject == "s0"
