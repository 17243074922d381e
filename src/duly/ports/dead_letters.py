"""What is asked of the store about dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from duly.domain.dead_letters import Suspect
from duly.domain.deliveries.delivery import Delivery


class DeadFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which dead letters: those to which all of it applies; empty, it is all of them.

    `text` is looked for in error, payload and key. `since` and `until` are about when they died.
    """

    reason: str | None = None
    fingerprint: str | None = None
    target: str | None = None
    stream: str | None = None
    schedule: str | None = None
    tag: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    ids: tuple[str, ...] = ()


class DeadGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of like errors; the error is that of the latest."""

    fingerprint: str
    reason: str | None
    count: int
    first_at: datetime
    last_at: datetime
    targets: list[str]
    error: str | None


class Again(msgspec.Struct, frozen=True):
    """Try them again, `spread` seconds apart; without `reset` their attempts stay spent."""

    reset: bool = True
    spread: float = 0.0


class GiveUp(msgspec.Struct, frozen=True):
    """Discard them."""

    note: str


Fortune = Again | GiveUp
"""What is to become of dead letters."""


class BulkCursor(msgspec.Struct, frozen=True, kw_only=True):
    """How far many have come: first those without a stream by their deaths, then by stream."""

    at: datetime | None = None
    stream: str | None = None
    position: int = 0
    id: str | None = None


class BulkProgress(msgspec.Struct, frozen=True):
    """How far many have come; `until` makes an interrupted operation go on as the same one."""

    done: int
    total: int
    until: datetime


class DeadLetters(Protocol):
    """Deliveries that will not be tried again by themselves."""

    async def page(
        self, filter: DeadFilter, before: tuple[datetime, str] | None, limit: int
    ) -> list[Delivery]:
        """Dead letters, the latest first; `before` is the death and id to go on from."""

    async def floor(self, before: tuple[datetime, str] | None, most: int) -> datetime | None:
        """When the one died that has so many above it; None when there is none."""

    async def groups(self, filter: DeadFilter, limit: int) -> list[DeadGroup]:
        """Dead letters by what their errors have in common, the most frequent first."""

    async def count(self, filter: DeadFilter) -> int:
        """How many there are."""

    async def retry(self, id: str, actor: str, *, reset: bool) -> Delivery:
        """Make one pending again, at its place if it has a stream; Conflict if it is not dead."""

    async def edit(self, id: str, payload: bytes, actor: str) -> Delivery:
        """Give one another payload and all its attempts again; Conflict if it is not dead."""

    async def discard(self, id: str, note: str, actor: str) -> Delivery:
        """Cancel one; a stream that it blocked goes on. Conflict if it is not dead."""

    async def begin(self, action: str, filter: DeadFilter, actor: str, detail: Any) -> None:
        """Note in the audit trail that somebody moves all that match."""

    async def move(
        self, filter: DeadFilter, fortune: Fortune, after: BulkCursor, limit: int
    ) -> tuple[int, BulkCursor | None]:
        """Move one batch of those that match; how many, and where to go on, None at the end.

        Those of a stream go in the order of their places. Each transaction is short; what was
        moved before a crash is moved, and the rest still matches.
        """

    async def suspects(self, limit: int, *, failed: bool) -> Sequence[Suspect]:
        """Unfinished deliveries whose workers died, or that `failed` too, the worst first."""
