"""What is asked of the store about streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from duly.domain.deliveries.delivery import Claimed
from duly.domain.streams.operations import Intervention
from duly.domain.streams.stream import StreamRow, StreamState

DecideStream = Callable[[StreamRow, datetime], Intervention]
"""What is to become of a stream, given how it stands and the moment; Conflict to leave it alone."""


class Joined(StrEnum):
    """What became of an occurrence that was to join the line of its schedule."""

    IN_LINE = "in_line"
    MUST_WAIT = "must_wait"
    """An earlier one is under way elsewhere, or about to join."""
    GONE = "gone"
    """It is no longer held: a later one may have taken it along."""


class Streams(Protocol):
    """Deliveries that run in order."""

    async def enlist(self, claimed: Claimed) -> bool:
        """Let a delivery join the line of its stream; False when it is no longer held."""

    async def join(self, claimed: Claimed, stream: str) -> Joined:
        """Let an occurrence of a schedule join a stream, behind all that fell due before it."""

    async def get(self, name: str, most: int) -> StreamRow:
        """One stream, or NotFound; those who wait in it are counted up to `most`."""

    async def page(
        self, state: StreamState | None, after: str, limit: int, most: int
    ) -> list[StreamRow]:
        """Streams by name: all of them, or those that are blocked or paused."""

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
        """Change one by what `decide` makes of it, in one transaction with its audit entry.

        While it decides nobody adds to the stream, claims from it or settles in it. NotFound when
        there is none, unless it is to be created.
        """
