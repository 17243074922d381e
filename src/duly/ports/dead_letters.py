"""The store's interface for dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from duly.domain.dead_letters import Suspect
from duly.records.dead_letter import DeadLetterFilter, DeadLetterGroup
from duly.records.delivery import Delivery


class Cause(msgspec.Struct, frozen=True):
    """What made a change, for the history."""

    why: str | None = None
    note: str | None = None

    @property
    def parameters(self) -> dict[str, str | None]:
        """As parameters of a statement."""
        return {"why": self.why, "note": self.note}


BY_OPERATOR = Cause()


class Retry(msgspec.Struct, frozen=True):
    """Retry dead letters, `spread` seconds apart; without `reset` their attempts stay spent."""

    reset: bool = True
    spread: float = 0.0


class Discard(msgspec.Struct, frozen=True):
    """Discard dead letters."""

    note: str


class Hold(msgspec.Struct, frozen=True):
    """Hold dead letters: nothing retries them until they are released or retried by id."""

    note: str


class Release(msgspec.Struct, frozen=True):
    """Release held dead letters; policies apply to them again."""


class GiveUp(msgspec.Struct, frozen=True):
    """Give dead letters up for good."""

    note: str


DeadLetterMove = Retry | Discard | Hold | Release | GiveUp
"""What a bulk operation does with dead letters."""


class BulkCursor(msgspec.Struct, frozen=True, kw_only=True):
    """Position in a bulk operation: first without a stream by `dead_at`, then stream by stream."""

    at: datetime | None = None
    stream: str | None = None
    position: int = 0
    id: str | None = None


class DeadLetters(Protocol):
    """Deliveries that are not retried automatically."""

    async def page(
        self, filter: DeadLetterFilter, before: tuple[datetime, str] | None, limit: int
    ) -> list[Delivery]:
        """A page of dead letters, latest first; `before` is `dead_at` and id of the last one."""

    async def floor(self, before: tuple[datetime, str] | None, most: int) -> datetime | None:
        """`dead_at` of the dead letter after the `most` newest ones, or None."""

    async def groups(self, filter: DeadLetterFilter, limit: int) -> list[DeadLetterGroup]:
        """Dead letters grouped by fingerprint, the largest group first."""

    async def count(self, filter: DeadLetterFilter) -> int:
        """The number of dead letters that match."""

    async def retry(self, id: str, actor: str, *, reset: bool) -> Delivery:
        """Make one pending again, at its position in its stream; Conflict if it is not dead."""

    async def edit(self, id: str, payload: bytes, actor: str) -> Delivery:
        """Replace the payload of one and reset its attempts; Conflict if it is not dead."""

    async def discard(self, id: str, note: str, actor: str) -> Delivery:
        """Cancel one; a stream that it blocked continues. Conflict if it is not dead."""

    async def dispose(self, id: str, move: Hold | Release | GiveUp, actor: str) -> Delivery:
        """Hold one, release it, or give it up; Conflict if its state does not allow that.

        A stream that a given up one blocked continues.
        """

    async def begin(self, action: str, filter: DeadLetterFilter, actor: str, detail: Any) -> None:
        """Write the audit entry of a bulk operation."""

    async def move(
        self, filter: DeadLetterFilter, move: DeadLetterMove, after: BulkCursor, limit: int
    ) -> tuple[int, BulkCursor | None]:
        """Move one batch; returns how many, and the next cursor or None at the end.

        Those of a stream are processed in its order. Each batch is committed by itself; after a
        crash the rest still matches.
        """

    async def suspects(self, limit: int, *, failed: bool) -> Sequence[Suspect]:
        """Unfinished deliveries whose workers died, with `failed` also failed ones, worst first."""
