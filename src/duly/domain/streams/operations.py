"""Operator actions on a stream and its deliveries, decided while both are locked.

`selection` decides which followers an operator releases, and when.

| stream            | retry now     | release       | dead-letter head | cancel head |
|-------------------|---------------|---------------|------------------|-------------|
| idle              | no            | no            | no               | no          |
| waiting           | due now       | no            | yes              | yes         |
| running           | no            | no            | no               | asked       |
| retrying          | due now       | runs apart    | yes              | yes         |
| blocked           | pending again | no longer blocks | no            | no          |
| paused            | no            | no            | yes              | yes         |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from duly.domain.deliveries.delivery import Lane
from duly.domain.streams.policy import RELEASED_DOES_NOT_BLOCK
from duly.domain.streams.stream import Halt, StreamRow, plight, to_do
from duly.errors import Conflict, InvalidInput
from duly.records.recovery import Disposition
from duly.records.state import State
from duly.records.stream import OnFailure, StreamState


class HeadAction(StrEnum):
    """What an action does to the head; each value but the first names a statement of the store."""

    STAYS = "stays"
    HURRIED = "hurry"
    """It is due now."""
    RAISED = "raise"
    """A dead letter is pending again, with all its attempts."""
    APART = "apart"
    """It leaves the queue and is retried at its planned moment."""
    LEFT = "leave"
    """A dead letter leaves the queue and stays dead."""
    MADE_DEAD = "make_dead"
    """It becomes a dead letter and leaves the queue."""
    DISCARDED = "discard"
    """A dead letter is discarded for good and leaves the queue."""


FAILED = frozenset({StreamState.BLOCKED, StreamState.RETRYING})
"""The states in which the head has failed, and is neither held nor paused."""
LEAVING = frozenset({HeadAction.APART, HeadAction.LEFT, HeadAction.MADE_DEAD, HeadAction.DISCARDED})


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """What to write: the new stream row, and what happens to the head."""

    line: StreamRow
    action: HeadAction = HeadAction.STAYS
    note: str | None = None
    limits_anew: bool = False
    """Whether the end of the present block changes."""


class Member(msgspec.Struct, frozen=True):
    """A delivery with a position in a stream; without a lane it has left the queue."""

    id: str
    stream: str
    lane: Lane | None
    position: int
    state: str
    disposition: str | None = None


class Return(StrEnum):
    """How a dead letter returns to the queue of its stream."""

    LEADS = "leads"
    """The queue starts with it, or with a delivery before it."""
    REPLAYED = "replayed"
    """The stream goes back to it when the present head is done."""
    WAITS = "waits"
    """The stream reaches it without a change."""


def configure(line: StreamRow, changes: Mapping[str, Any]) -> Intervention:
    """Change the policy of the stream from the next failure on, and the limit of a block at once.

    `changes` are checked fields of StreamOptions. The policy `release` ends the limit.
    """
    changed = msgspec.structs.replace(line, **changes)
    if changed.on_failure == OnFailure.RELEASE:
        if changes.get("block_for") is not None:
            raise InvalidInput("block_for", RELEASED_DOES_NOT_BLOCK)
        changed = msgspec.structs.replace(changed, block_for=None)
    if changed.block_for == line.block_for or not line.has_failed_head:
        return Intervention(line=changed)
    if line.unblocks_at is not None and line.block_for and changed.block_for:
        longer = timedelta(seconds=changed.block_for - line.block_for)
        changed = msgspec.structs.replace(changed, unblocks_at=line.unblocks_at + longer)
    return Intervention(line=changed, limits_anew=True)


def pause(line: StreamRow, now: datetime, reason: str | None) -> Intervention:
    """Pause the stream; if it is blocked, it stays blocked."""
    since = line.paused_at or now
    return Intervention(line=msgspec.structs.replace(line, paused_at=since, pause_reason=reason))


def resume(line: StreamRow) -> Intervention:
    """Resume the stream; if it is blocked, it stays blocked."""
    return Intervention(line=msgspec.structs.replace(line, paused_at=None, pause_reason=None))


def retry_now(line: StreamRow) -> Intervention:
    """Retry the head now, if it is waiting or dead."""
    match line.state:
        case StreamState.BLOCKED:
            return Intervention(line=_unblocked(line), action=HeadAction.RAISED)
        case StreamState.WAITING | StreamState.RETRYING:
            return Intervention(line=line, action=HeadAction.HURRIED)
    raise _refused(line, "only a head that waits or is dead can be retried")


def release(line: StreamRow) -> Intervention:
    """Let the deliveries behind a failed head proceed; it is retried beside them or stays dead."""
    match line.state:
        case StreamState.BLOCKED:
            return Intervention(line=_unblocked(line), action=HeadAction.LEFT)
        case StreamState.RETRYING:
            return Intervention(line=line, action=HeadAction.APART)
    raise _refused(line, "only a head that failed can be left behind")


def end_block(line: StreamRow, now: datetime) -> Intervention | None:
    """Release the failed head if it has blocked the stream for long enough; None if not yet.

    It may have been retried by a recovery policy meanwhile, and wait for its next attempt.
    """
    if line.unblocks_at is None or line.unblocks_at > now:
        return None
    if line.state is StreamState.WAITING:
        return Intervention(line=line, action=HeadAction.APART)
    return release(line) if line.state in FAILED else None


def dead_letter_head(line: StreamRow, note: str | None) -> Intervention:
    """Make the head a dead letter; those behind it proceed under any policy."""
    if line.state is StreamState.BLOCKED:
        raise _refused(line, "its head is a dead letter already")
    if line.token is not None or not line.has_pending_head:
        raise _refused(line, "only a head that waits can be made a dead letter")
    return Intervention(line=line, action=HeadAction.MADE_DEAD, note=note)


def discard(line: StreamRow, member: Member, note: str) -> Intervention | None:
    """Discard a dead letter for good; None if it does not block its stream."""
    if line.state is not StreamState.BLOCKED or line.head != member.id:
        return None
    return Intervention(line=_unblocked(line), action=HeadAction.DISCARDED, note=note)


def give_up(line: StreamRow, member: Member) -> Intervention | None:
    """Leave a dead letter behind for good; None if it does not block its stream."""
    if line.state is not StreamState.BLOCKED or line.head != member.id:
        return None
    return Intervention(line=_unblocked(line), action=HeadAction.LEFT)


def cancels_head(line: StreamRow, member: Member, *, in_run: bool) -> bool:
    """Whether the delivery to cancel is the head; Conflict if a worker may be running it."""
    if line.token is not None and in_run:
        raise Conflict(
            f"delivery {member.id} is being run with its stream {line.name!r}; wait until it has "
            f"ended, or stop the stream after what is claimed: duly streams pause {line.name}"
        )
    return line.token is None and line.head == member.id


def comes_back(line: StreamRow, members: Sequence[Member]) -> Return:
    """How retried dead letters return to the queue, so that earlier positions run first.

    `members` are sorted by position.
    """
    if line.token is not None:
        return Return.REPLAYED
    is_later = line.position is not None and members[0].position > line.position
    if line.halted == Halt.BLOCKED and all(line.head != each.id for each in members):
        return Return.WAITS if is_later else Return.REPLAYED
    return Return.WAITS if is_later and line.has_pending_head else Return.LEADS


def refuse_if_behind(line: StreamRow, member: Member) -> None:
    """Raise Conflict if a pending delivery cannot be due now because others must run first."""
    is_held = line.token is not None or line.paused_at is not None or line.halted is not None
    is_later = line.position is not None and member.position > line.position
    if not is_held and not (is_later and line.has_pending_head):
        return
    raise Conflict(
        f"delivery {member.id} waits in stream {line.name!r}, {plight(line)}; {to_do(line)}"
    )


def is_dead(member: Member) -> bool:
    """Whether the delivery is a dead letter."""
    return member.state == State.DEAD


def can_return(member: Member) -> bool:
    """Whether the delivery is a dead letter that was not given up."""
    return is_dead(member) and member.disposition != Disposition.GIVEN_UP


def _unblocked(row: StreamRow) -> StreamRow:
    return msgspec.structs.replace(row, halted=None, halted_at=None)


def _refused(row: StreamRow, rule: str) -> Conflict:
    return Conflict(f"stream {row.name!r} is {row.state}; {rule}; {to_do(row)}")
