"""A stream as it stands: its head, what holds it up, who waits behind, and what can be done."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from duly.domain.deliveries.delivery import Lane
from duly.domain.deliveries.states import State
from duly.domain.streams.policy import Policy, policy_of
from duly.errors import NotFound

NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""When the lane of a stream that stands still is due."""


class StreamState(StrEnum):
    """Where a stream stands; all but the last two go on by themselves."""

    IDLE = "idle"
    WAITING = "waiting"
    RUNNING = "running"
    RETRYING = "retrying"
    BLOCKED = "blocked"
    PAUSED = "paused"


class Halt(StrEnum):
    """Why the lane of a stream is never due."""

    BLOCKED = "blocked"
    PAUSED = "paused"


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery that all others of its stream wait for."""

    id: str
    state: State
    attempt: int
    position: int
    next_at: datetime | None = None
    reason: str | None = None
    error: str | None = None


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream as people see it."""

    name: str
    state: StreamState
    on_failure: Policy
    head: Head | None = None
    since: datetime | None = None
    """Since when it is blocked, or paused."""
    paused_at: datetime | None = None
    pause_reason: str | None = None
    waiting: int = 0
    """How many stand behind the head; counted up to a limit."""
    oldest_at: datetime | None = None
    """When the first of those behind the head was accepted."""
    to_do: str = ""


class StreamRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows of a stream: its row, its lane's, and its head's."""

    lane: Lane
    name: str
    on_failure: str | None = None
    paused_at: datetime | None = None
    pause_reason: str | None = None
    head: str | None = None
    position: int | None = None
    token: int | None = None
    due_at: datetime | None = None
    halted: str | None = None
    halted_at: datetime | None = None
    replay_from: int | None = None
    head_state: str | None = None
    attempt: int | None = None
    reason: str | None = None
    error: str | None = None
    waiting: int = 0
    oldest_at: datetime | None = None

    @property
    def state(self) -> StreamState:
        """Where the stream stands."""
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
        """Whether its head is unfinished; the lane may outlive its last one for a moment."""
        return self.head_state == State.PENDING

    @property
    def beginning(self) -> int:
        """Where the line begins: nobody who is pending stands before."""
        assert self.position is not None
        return min(self.position, self.replay_from or self.position)


def stream_of(line: StreamRow) -> Stream:
    """The stream as people see it."""
    state = line.state
    return Stream(
        name=line.name,
        state=state,
        on_failure=policy_of(line.name, line.on_failure),
        head=_head(line),
        since=line.halted_at if state is StreamState.BLOCKED else line.paused_at,
        paused_at=line.paused_at,
        pause_reason=line.pause_reason,
        waiting=line.waiting,
        oldest_at=line.oldest_at,
        to_do=to_do(line),
    )


def _head(line: StreamRow) -> Head | None:
    shown = line.has_pending_head or line.state is StreamState.BLOCKED
    if line.head is None or line.position is None or line.head_state is None or not shown:
        return None
    stands_still = line.halted is not None or line.token is not None
    return Head(
        id=line.head,
        state=State(line.head_state) if line.token is None else State.PROCESSING,
        attempt=line.attempt or 0,
        position=line.position,
        next_at=None if stands_still else line.due_at,
        reason=line.reason,
        error=line.error,
    )


def to_do(line: StreamRow) -> str:
    """What an operator can do, with the command."""
    name = shlex.quote(line.name)
    match line.state:
        case StreamState.BLOCKED:
            return (
                f"`duly streams retry-now {name}` tries its head again, "
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


def plight(line: StreamRow) -> str:
    """What holds those in the line up, in words."""
    who = f"delivery {line.head}"
    match line.state:
        case StreamState.BLOCKED:
            return f"blocked by {who} (dead since {told(line.halted_at)})"
        case StreamState.PAUSED:
            reason = f" ({line.pause_reason})" if line.pause_reason else ""
            return f"paused since {told(line.paused_at)}{reason}"
        case StreamState.RETRYING:
            return f"behind {who} (retrying, next at {told(line.due_at)})"
        case StreamState.WAITING:
            return f"behind {who} (due at {told(line.due_at)})"
        case StreamState.RUNNING:
            return f"behind {who} (processing)"
        case StreamState.IDLE:
            return "idle"


def no_stream(name: str) -> NotFound:
    """There is none of that name."""
    return NotFound("stream", name, "duly streams list shows what there is")


def told(moment: datetime | None) -> str:
    """A moment for people."""
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
