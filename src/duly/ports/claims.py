"""What a worker asks for when it claims, and what it gets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from duly.domain.deliveries.delivery import Claimed
from duly.domain.endpoints.gates import NO_LIMITS, TargetLimits
from duly.domain.endpoints.limits import KeyUse
from duly.domain.turns import Visited


class ClaimableGroup(msgspec.Struct, frozen=True):
    """Unclaimed lanes of one priority and target, and when the first of them is due."""

    priority: int
    target: int
    due_at: datetime
    seen_at: datetime | None = None
    """When this was read, by the store's clock."""
    shut: bool = False
    """The endpoint is paused, disabled or removed."""
    probe_at: datetime | None = None
    """When the next probe is allowed, if the circuit is open."""
    failing: bool = False
    limited: bool = False
    """The target has a rate limit or an in-flight limit."""
    turns: bool = False
    """The lanes have keys, which take turns."""
    key_rate: float | None = None
    key_in_flight: int | None = None

    @property
    def each_key(self) -> TargetLimits:
        """The limits for each limit key."""
        return TargetLimits(self.key_rate, self.key_in_flight)


class ClaimRequest(msgspec.Struct, frozen=True):
    """How many lanes to claim of one group; lanes due before `floor_at` are not examined."""

    priority: int
    target: int
    floor_at: datetime
    quota: int
    turns: bool = False
    """Of the lanes with keys, which take turns."""
    after: str = ""
    """The key to continue after."""
    each_key: TargetLimits = NO_LIMITS
    """The limits for each limit key."""
    ahead: Visited | None = None
    """The keys that follow, if they were read a moment ago; `now_at` is the store's time."""
    now_at: datetime | None = None
    early: int = 0
    """How many of the quota would be held ahead of free slots."""


class Round(msgspec.Struct, frozen=True):
    """The result of one request for lanes with keys."""

    priority: int
    target: int
    claimed: int
    after: str
    """The key to continue after; empty if no key is left, so that the next round begins."""
    again_at: datetime | None = None
    """When a key that its limits hold back may be asked again."""
    ahead: Visited | None = None
    """The keys that follow, for the next request."""
    is_full: bool = False
    """Keys would give more to free slots, but no more to be held ahead."""


class ClaimedTurns(NamedTuple):
    """The lanes that were claimed key by key, and the result of each request."""

    claimed: list[Claimed]
    rounds: list[Round]


class Turns(Protocol):
    """The lanes of deliveries with a fair key or a limit key."""

    async def claim(
        self, token: int, slots: int, asks: Sequence[ClaimRequest], finished: Sequence[int] = ()
    ) -> ClaimedTurns:
        """Claim as `Agenda.claim`, but key by key, and as many as the limits of each key allow."""

    async def use(self, target: int, key: str) -> tuple[KeyUse, datetime | None]:
        """How far the limits of one limit key are used, and the time; `waiting` is not counted."""

    async def keys(
        self, target: int, after: str, limit: int, most: int
    ) -> tuple[list[KeyUse], datetime | None]:
        """The limit keys of a target that were claimed lately, and the time of the count.

        `most` are counted as waiting.
        """
