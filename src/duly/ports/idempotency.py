"""What is asked of the store about requests that must not count twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

import msgspec

KEPT_FOR = timedelta(days=1)
PATIENCE = timedelta(seconds=30)
"""How long whoever began a request may be silent before another takes it over."""


class IdempotentRequest(msgspec.Struct, frozen=True):
    """A request under its key: what was asked, what it makes, and its answer if it has one."""

    key: str
    fingerprint: str
    seed: str
    status: int | None = None
    headers: dict[str, str] = {}
    answer: bytes | None = None


class IdempotentRequests(Protocol):
    """Requests by their keys, for a day."""

    async def begin(self, asked: IdempotentRequest) -> IdempotentRequest | None:
        """Note a request before it is carried out; None when it is new, otherwise the first."""

    async def take_over(self, first: IdempotentRequest, *, at_once: bool) -> bool:
        """Whether a request that nobody answered yet may be carried out by another as well.

        If not `at_once`, only when whoever began it was silent for PATIENCE. From then on it
        cannot be abandoned.
        """

    async def finish(self, asked: IdempotentRequest) -> None:
        """Keep the answer, once."""

    async def abandon(self, asked: IdempotentRequest) -> None:
        """Forget a request that came to nothing, so that it can be made again.

        Nothing happens when it was taken over: whoever did may have carried it out.
        """

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Forget at most a batch of what was begun longer ago; returns how many."""
