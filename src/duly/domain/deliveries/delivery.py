"""The three forms of a delivery: prepared by a caller, claimed by a worker, and stored."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from duly.domain.checks import DEFAULT_PRIORITY
from duly.domain.deliveries.retry import RetryPlan
from duly.domain.deliveries.states import State

ALONE = 0
"""The level, below every priority, of lanes that run alone (see crashes)."""


Lane = str | int
"""A lane's key in its store; opaque to everything else."""


class PreparedDelivery(msgspec.Struct, frozen=True):
    """A checked delivery, ready to be stored."""

    id: str
    target: str
    payload: bytes
    due_at: datetime | None = None
    after: float | None = None
    key: str | None = None
    priority: int = DEFAULT_PRIORITY
    expires_at: datetime | None = None
    tags: tuple[str, ...] = ()
    retry: str | None = None
    address: str | None = None
    stream: str | None = None
    on_failure: str | None = None
    again: bool = False
    """The caller gave the id, so the delivery may already be stored."""

    @property
    def is_new(self) -> bool:
        """Whether it cannot conflict with anything stored: no key, no stream, no given id."""
        return self.key is None and self.stream is None and not self.again


class Accepted(msgspec.Struct, frozen=True):
    """The store's confirmation; `known` if the delivery was already stored under its key or id."""

    id: str
    due_at: datetime
    known: bool


class Claimed(msgspec.Struct):
    """A delivery in a lane that this worker holds under `token`."""

    id: str
    lane: Lane
    token: int
    target: int
    payload: bytes
    attempt: int
    priority: int
    crashes: int
    due_at: datetime
    ready_at: datetime
    expires_at: datetime | None
    retry: str | None
    key: str | None
    occasion: str | None = None
    address: str | None = None
    stream: str | None = None
    position: int | None = None
    on_failure: str | None = None
    joins: bool = False
    """It was planned before it was due and joins the queue of its stream now."""
    expires_in: float | None = None
    """Seconds from claim to expiry, by the store's clock."""
    expires_on: float | None = None
    """The expiry on this process's monotonic clock."""
    followers: list[Claimed] | None = None
    """The next deliveries of its stream, claimed with it and attempted in order."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A stored delivery with all its fields."""

    id: str
    namespace: str
    target: str
    state: State
    priority: int
    attempt: int
    due_at: datetime
    accepted_at: datetime
    next_at: datetime | None = None
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    dead_at: datetime | None = None
    expires_at: datetime | None = None
    key: str | None = None
    url: str | None = None
    stream: str | None = None
    position: int | None = None
    schedule: str | None = None
    scheduled_for: datetime | None = None
    merged: int = 0
    tags: list[str] = []
    retry: RetryPlan | None = None
    """Its own retry plan; None if the target's plan applies."""
    reason: str | None = None
    error: str | None = None
    fingerprint: str | None = None
    crashes: int = 0
    worker: int | None = None
    payload_json: msgspec.Raw = msgspec.field(name="payload", default=msgspec.Raw(b"null"))
    """The payload as the caller gave it, byte for byte."""

    @property
    def payload(self) -> Any:
        """The payload, decoded."""
        return msgspec.json.decode(self.payload_json)

    @property
    def late_by(self) -> timedelta | None:
        """How long after `due_at` the last attempt started."""
        return None if self.started_at is None else late_by(self.due_at, self.started_at)


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt or other state change of a delivery, as the history keeps it."""

    delivery: str
    attempt: int
    outcome: str
    before: State
    after: State
    worker: int | None
    token: int | None
    started_at: datetime | None
    finished_at: datetime
    next_at: datetime | None = None
    reason: str | None = None
    error: str | None = None
    answer: Any = None
    traceback: str | None = None
    """The traceback in the user's code."""

    @property
    def is_crash(self) -> bool:
        """Whether the worker died during it: only the worker would have reported the start."""
        ends = ("reclaimed", "retry", "dead")
        return self.started_at is None and self.token is not None and self.outcome in ends


def late_by(due_at: datetime, started_at: datetime) -> timedelta:
    """How late an attempt started; never negative."""
    return max(started_at - due_at, timedelta())
