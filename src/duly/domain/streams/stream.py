"""The status of a stream: its head, its state, what waits behind, and what to do."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from duly.domain.deliveries.delivery import Lane
from duly.domain.streams.policy import policy_of
from duly.errors import NotFound
from duly.records.state import State
from duly.records.stream import Head, Stream, StreamState

NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""The due moment of a lane whose stream is blocked or paused."""


class Halt(StrEnum):
    """Why the lane of a stream is never due."""

    BLOCKED = "blocked"
    PAUSED = "paused"


class StreamRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stream as the store reads it: its row joined with its lane and its head."""

    lane: Lane
    name: str
    on_failure: str | None = None
    block_for: float | None = None
    paused_at: datetime | None = None
    pause_reason: str | None = None
    head: str | None = None
    position: int | None = None
    token: int | None = None
    due_at: datetime | None = None
    halted: str | None = None
    halted_at: datetime | None = None
    replay_from: int | None = None
    unblocks_at: datetime | None = None
    head_state: str | None = None
    attempt: int | None = None
    reason: str | None = None
    error: str | None = None
    waiting: int = 0
    oldest_at: datetime | None = None

    @property
    def state(self) -> StreamState:
        """The state of the stream."""
        if self.halted == Halt.BLOCKED:
            return StreamState.BLOCKED
        if self.paused_at is not None:
            return StreamState.PAUSED
        if self.token is not None:
            return StreamState.RUNNING
        if not self.has_pending_head:
            return StreamState.IDLE
        return StreamState.RETRYING if self.attempt else StreamState.WAITING

    @property
    def has_pending_head(self) -> bool:
        """Whether its head is unfinished; a lane may briefly remain after its last delivery."""
        return self.head_state == State.PENDING

    @property
    def has_failed_head(self) -> bool:
        """Whether its head is dead, or failed before and is unfinished."""
        failed_before = bool(self.attempt) or self.unblocks_at is not None
        return self.halted == Halt.BLOCKED or (self.has_pending_head and failed_before)

    @property
    def beginning(self) -> int:
        """The position where the queue begins: no pending delivery is before it."""
        assert self.position is not None
        return min(self.position, self.replay_from or self.position)


def stream_of(line: StreamRow) -> Stream:
    """The public view of a stream row."""
    state = line.state
    return Stream(
        name=line.name,
        state=state,
        on_failure=policy_of(line.name, line.on_failure),
        block_for=line.block_for,
        blocked_until=line.unblocks_at,
        head=_head(line),
        since=line.halted_at if state is StreamState.BLOCKED else line.paused_at,
        paused_at=line.paused_at,
        pause_reason=line.pause_reason,
        waiting=line.waiting,
        oldest_at=line.oldest_at,
        to_do=to_do(line),
    )


def _head(row: StreamRow) -> Head | None:
    shown = row.has_pending_head or row.state is StreamState.BLOCKED
    if row.head is None or row.position is None or row.head_state is None or not shown:
        return None
    is_held = row.halted is not None or row.token is not None
    return Head(
        id=row.head,
        state=State(row.head_state) if row.token is None else State.PROCESSING,
        attempt=row.attempt or 0,
        position=row.position,
        next_at=None if is_held else row.due_at,
        reason=row.reason,
        error=row.error,
    )


def to_do(line: StreamRow) -> str:
    """What an operator can do now, with the command."""
    name = shlex.quote(line.name)
    match line.state:
        case StreamState.BLOCKED:
            return (
                f"{_end(line)}`duly streams retry-now {name}` tries its head again, "
                f"`duly streams release {name}` lets those behind it go on without it"
            )
        case StreamState.PAUSED:
            return f"`duly streams resume {name}` lets it go on"
        case StreamState.RETRYING:
            return (
                f"it goes on by itself; `duly streams retry-now {name}` tries its head now, "
                f"`duly streams release {name}` lets those behind it go on meanwhile"
            )
        case StreamState.WAITING:
            return (
                f"it goes on by itself when its head is due; `duly streams retry-now {name}` "
                f"makes that now, `duly deliveries cancel {line.head}` takes the head out"
            )
        case StreamState.RUNNING:
            return f"it goes on by itself; `duly streams pause {name}` lets it end what is claimed"
        case StreamState.IDLE:
            return "nothing waits in it"


def _end(row: StreamRow) -> str:
    """When a limited block ends by itself, as text."""
    until = row.unblocks_at
    return "" if until is None else f"it goes on without its head at {shown_moment(until)}; "


def plight(line: StreamRow) -> str:
    """Why the deliveries of the stream wait, as text."""
    head = f"delivery {line.head}"
    match line.state:
        case StreamState.BLOCKED:
            return f"blocked by {head} (dead since {shown_moment(line.halted_at)})"
        case StreamState.PAUSED:
            reason = f" ({line.pause_reason})" if line.pause_reason else ""
            return f"paused since {shown_moment(line.paused_at)}{reason}"
        case StreamState.RETRYING:
            return f"behind {head} (retrying, next at {shown_moment(line.due_at)})"
        case StreamState.WAITING:
            return f"behind {head} (due at {shown_moment(line.due_at)})"
        case StreamState.RUNNING:
            return f"behind {head} (processing)"
        case StreamState.IDLE:
            return "idle"


def no_stream(name: str) -> NotFound:
    """The error for a stream that does not exist."""
    return NotFound("stream", name, "duly streams list shows what there is")


def shown_moment(moment: datetime | None) -> str:
    """A moment as text, in UTC."""
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
