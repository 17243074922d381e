"""Deliveries: accepted and stored."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from duly.records.retry_plan import RetryPlan
from duly.records.state import State

LEAST_PRIORITY, DEFAULT_PRIORITY, MOST_PRIORITY = 1, 5, 9


class Accepted(msgspec.Struct, frozen=True):
    """The store's confirmation; `known` if the delivery was already stored under its key or id."""

    id: str
    due_at: datetime
    known: bool = False


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


def late_by(due_at: datetime, started_at: datetime) -> timedelta:
    """How late an attempt started; never negative."""
    return max(started_at - due_at, timedelta())
