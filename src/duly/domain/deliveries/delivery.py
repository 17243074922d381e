"""The three forms of a delivery: prepared by a caller, claimed by a worker, and stored."""

from __future__ import annotations

from datetime import datetime

import msgspec

from duly.records.delivery import DEFAULT_PRIORITY

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
