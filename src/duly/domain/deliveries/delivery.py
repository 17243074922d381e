"""The three forms of a delivery: prepared by a caller, claimed by a worker, and stored."""

from __future__ import annotations

from datetime import datetime

import msgspec

from duly.records.delivery import DEFAULT_PRIORITY

FAIR, LIMIT = "fair:", "limit:"
"""How the stored form of a fair key or a limit key begins."""
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
    turn: str | None = None
    """Its fair key or limit key, as it is stored."""
    batch: str | None = None
    again: bool = False
    """The caller gave the id, so the delivery may already be stored."""
    unique_key: str | None = None
    """Of deliveries with the same one and the same target, only one waits; `key` is None then."""
    on_duplicate: str | None = None
    latest: float | None = None
    """Seconds from the first acceptance, past which it is not postponed."""

    @property
    def is_alone(self) -> bool:
        """Whether it never has to wait for another transaction: no key, stream or batch."""
        return self.key is self.stream is self.unique_key is self.batch is None

    @property
    def is_limited(self) -> bool:
        """Whether it has a limit key."""
        return self.turn is not None and self.turn.startswith(LIMIT)

    @property
    def is_new(self) -> bool:
        """Whether the simplest statement can store it: no conflict, no stream, no turn."""
        no_key = self.key is self.unique_key is None
        return no_key and self.stream is None and self.turn is None and not self.again


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
    unique_key: str | None = None
    turn: str | None = None
    """Its fair key or limit key, as it is stored."""
    expires_on: float | None = None
    """The expiry on this process's monotonic clock."""
    followers: list[Claimed] | None = None
    """The next deliveries of its stream, claimed with it and attempted in order."""
