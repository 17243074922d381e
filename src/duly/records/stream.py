"""Streams: their states, policies and heads."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, TypedDict

import msgspec

from duly.records.partial import partial_of
from duly.records.state import State


class OnFailure(StrEnum):
    """The policies that a caller may choose."""

    BLOCK = "block"
    RELEASE = "release"


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a failed head does to those behind it, and for how many seconds at most."""

    on_failure: OnFailure | None = None
    block_for: float | None = None


class StreamKeywords(TypedDict, total=False):
    """`StreamOptions` as keyword arguments, which also take durations and plain strings."""

    on_failure: OnFailure | str | None
    block_for: float | timedelta | str | None


class StreamChange(partial_of(StreamOptions, "StreamFields")):  # type: ignore[misc]
    """Changes of a stream; fields that are left out stay as they are."""

    EXAMPLE: ClassVar = {"on_failure": "block", "block_for": 900}


class StreamState(StrEnum):
    """The state of a stream; in all but the last two it continues without an operator."""

    IDLE = "idle"
    WAITING = "waiting"
    RUNNING = "running"
    RETRYING = "retrying"
    BLOCKED = "blocked"
    PAUSED = "paused"


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first delivery of a stream, which all others wait for."""

    id: str
    state: State
    attempt: int
    position: int
    next_at: datetime | None = None
    reason: str | None = None
    error: str | None = None


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """The public view of a stream."""

    name: str
    state: StreamState
    on_failure: Policy
    block_for: float | None = None
    """For how many seconds a failed head blocks it; None: until somebody acts."""
    blocked_until: datetime | None = None
    """When it continues without its failed head."""
    head: Head | None = None
    since: datetime | None = None
    """When it was blocked or paused."""
    paused_at: datetime | None = None
    pause_reason: str | None = None
    waiting: int = 0
    """The number of deliveries behind the head, counted up to a limit."""
    oldest_at: datetime | None = None
    """When the first delivery behind the head was accepted."""
    to_do: str = ""


class Policy(StrEnum):
    """What a failed head does to the deliveries behind it."""

    BLOCK = "block"
    RELEASE = "release"
    QUEUE = "queue"
