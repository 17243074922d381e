"""The store's interface for streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from duly.domain.deliveries.delivery import Claimed
from duly.domain.monitoring.alerts import AlertCause
from duly.domain.streams.operations import Intervention
from duly.domain.streams.selection import Selection
from duly.domain.streams.stream import StreamRow
from duly.records.stream import StreamState

DecideStream = Callable[[StreamRow, datetime], Intervention]
"""Returns the change of a stream, given its row and the moment; raises Conflict to refuse."""


class Joined(StrEnum):
    """The result for an occurrence that was to join the queue of its schedule."""

    QUEUED = "queued"
    MUST_WAIT = "must_wait"
    """An earlier occurrence is running outside the stream, or is about to join."""
    GONE = "gone"
    """It is no longer held: a later occurrence may have moved it into the queue."""


class LimitedBlock(msgspec.Struct, frozen=True):
    """A stream that its failed head blocks until a moment; `seen_at` is the store's time."""

    namespace: str
    name: str
    until: datetime
    seen_at: datetime

    @property
    def seconds_left(self) -> float:
        """How long it lasts; not more than 0 if it has ended."""
        return (self.until - self.seen_at).total_seconds()


class EndedBlock(msgspec.Struct, frozen=True):
    """A stream that continues without its failed head, and the alert that reports it."""

    name: str
    head: str
    block_for: float
    alert: AlertCause | None
    """None if the alert is active already."""


class Streams(Protocol):
    """Deliveries that run in order."""

    async def enlist(self, claimed: Claimed) -> bool:
        """Add a claimed delivery to the queue of its stream; False if it is no longer held."""

    async def join(self, claimed: Claimed, stream: str) -> Joined:
        """Add an occurrence of a schedule to a stream, behind all that were due before it."""

    async def get(self, name: str, most: int) -> StreamRow:
        """One stream, or NotFound; its waiting deliveries are counted up to `most`."""

    async def page(
        self, state: StreamState | None, after: str, limit: int, most: int
    ) -> list[StreamRow]:
        """A page of streams by name: all of them, or those that are blocked or paused."""

    async def revise(
        self,
        name: str,
        decide: DecideStream,
        actor: str,
        action: str,
        detail: Mapping[str, Any] | None = None,
        *,
        create: bool = False,
    ) -> None:
        """Change one as `decide` returns, in one transaction with its audit entry.

        The stream is locked meanwhile: nothing is added to it, claimed from it or settled in it.
        NotFound if it does not exist, unless `create`.
        """

    async def release_followers(self, name: str, chosen: Selection, actor: str) -> None:
        """Let chosen deliveries behind a failed head leave the queue, in one transaction.

        Conflict if the head has not failed; InvalidInput if one of them does not wait behind it.
        """

    async def end_block(self, name: str, actor: str) -> EndedBlock | None:
        """Release a failed head that has blocked the stream for long enough; None if it has not.

        In one transaction with its audit entry and its alert, so that it happens once.
        """
