"""What an operator may do to a stream or one in its line, decided while both are locked.

| stream            | retry now     | release       | dead-letter head | cancel head |
|-------------------|---------------|---------------|------------------|-------------|
| idle              | no            | no            | no               | no          |
| waiting           | due now       | no            | yes              | yes         |
| running           | no            | no            | no               | no          |
| retrying          | due now       | runs apart    | yes              | yes         |
| blocked           | pending again | no longer blocks | no            | no          |
| paused            | no            | no            | yes              | yes         |
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from duly.domain.deliveries.delivery import Lane
from duly.domain.deliveries.states import State
from duly.domain.streams.policy import OnFailure
from duly.domain.streams.stream import Halt, StreamRow, StreamState, plight, to_do
from duly.errors import Conflict


class Fate(StrEnum):
    """What becomes of the head of a line; each but the first is a statement of the store."""

    STAYS = "stays"
    HURRIED = "hurry"
    """It is due now."""
    RAISED = "raise"
    """A dead letter is pending again, with all its attempts."""
    APART = "apart"
    """It leaves the line and is tried again when it was to be."""
    LEFT = "leave"
    """A dead letter no longer stands in the line."""
    BURIED = "bury"
    """It becomes a dead letter and leaves the line."""
    DISCARDED = "discard"
    """A dead letter is given up for good and leaves the line."""


LEAVING = frozenset({Fate.APART, Fate.LEFT, Fate.BURIED, Fate.DISCARDED})


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written: the line as it becomes, and the fate of its head."""

    line: StreamRow
    fate: Fate = Fate.STAYS
    note: str | None = None


class Member(msgspec.Struct, frozen=True):
    """A delivery that has a place in a stream; without a lane it has left the line."""

    id: str
    stream: str
    lane: Lane | None
    position: int
    state: str


class Return(StrEnum):
    """How a dead letter comes back into its line."""

    LEADS = "leads"
    """The line begins with it, or with one before it."""
    REPLAYED = "replayed"
    """The line goes back to it when its present head is done."""
    WAITS = "waits"
    """The line comes to it by itself."""


def configure(line: StreamRow, on_failure: OnFailure | None) -> Intervention:
    """Give the stream another policy; it counts from the next failure on."""
    return Intervention(line=msgspec.structs.replace(line, on_failure=on_failure))


def pause(line: StreamRow, now: datetime, reason: str | None) -> Intervention:
    """Start nothing more; what blocks goes on blocking."""
    since = line.paused_at or now
    return Intervention(line=msgspec.structs.replace(line, paused_at=since, pause_reason=reason))


def resume(line: StreamRow) -> Intervention:
    """Go on; what blocks goes on blocking."""
    return Intervention(line=msgspec.structs.replace(line, paused_at=None, pause_reason=None))


def retry_now(line: StreamRow) -> Intervention:
    """Try the head now, be it that it waits or that it is dead."""
    match line.state:
        case StreamState.BLOCKED:
            return Intervention(line=_unblocked(line), fate=Fate.RAISED)
        case StreamState.WAITING | StreamState.RETRYING:
            return Intervention(line=line, fate=Fate.HURRIED)
    raise _refused(line, "only a head that waits or is dead can be retried")


def release(line: StreamRow) -> Intervention:
    """Let those behind a failed head go on; it is retried beside them, or stays dead."""
    match line.state:
        case StreamState.BLOCKED:
            return Intervention(line=_unblocked(line), fate=Fate.LEFT)
        case StreamState.RETRYING:
            return Intervention(line=line, fate=Fate.APART)
    raise _refused(line, "only a head that failed can be left behind")


def dead_letter_head(line: StreamRow, note: str | None) -> Intervention:
    """Give the head up; those behind it go on, whatever the policy."""
    if line.state is StreamState.BLOCKED:
        raise _refused(line, "its head is a dead letter already")
    if line.token is not None or not line.has_pending_head:
        raise _refused(line, "only a head that waits can be made a dead letter")
    return Intervention(line=line, fate=Fate.BURIED, note=note)


def discard(line: StreamRow, member: Member, note: str) -> Intervention | None:
    """Give a dead letter up for good; None when it is not the one that its stream stands behind."""
    if line.state is not StreamState.BLOCKED or line.head != member.id:
        return None
    return Intervention(line=_unblocked(line), fate=Fate.DISCARDED, note=note)


def cancels_head(line: StreamRow, member: Member, *, in_run: bool) -> bool:
    """Whether one that is cancelled heads its line; Conflict when a worker may be at it."""
    if line.token is not None and in_run:
        raise Conflict(
            f"delivery {member.id} is being run with its stream {line.name!r}; wait until it has "
            f"ended, or stop the stream after what is claimed: duly streams pause {line.name}"
        )
    return line.token is None and line.head == member.id


def comes_back(line: StreamRow, members: Sequence[Member]) -> Return:
    """How dead letters that are retried come back into the line, so that earlier ones go first.

    They are given in the order of their places.
    """
    if line.token is not None:
        return Return.REPLAYED
    is_later = line.position is not None and members[0].position > line.position
    if line.halted == Halt.BLOCKED and all(line.head != each.id for each in members):
        return Return.WAITS if is_later else Return.REPLAYED
    return Return.WAITS if is_later and line.has_pending_head else Return.LEADS


def refuse_if_behind(line: StreamRow, member: Member) -> None:
    """Conflict when one that waits cannot be due now, since others have to go before it."""
    stands_still = line.token is not None or line.paused_at is not None or line.halted is not None
    is_later = line.position is not None and member.position > line.position
    if not stands_still and not (is_later and line.has_pending_head):
        return
    raise Conflict(
        f"delivery {member.id} waits in stream {line.name!r}, {plight(line)}; {to_do(line)}"
    )


def is_dead(member: Member) -> bool:
    """Whether it is a dead letter."""
    return member.state == State.DEAD


def _unblocked(line: StreamRow) -> StreamRow:
    return msgspec.structs.replace(line, halted=None, halted_at=None)


def _refused(line: StreamRow, rule: str) -> Conflict:
    return Conflict(f"stream {line.name!r} is {line.state}; {rule}; {to_do(line)}")
