"""The store's interface for idempotent requests."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

import msgspec

KEPT_FOR = timedelta(days=1)
PATIENCE = timedelta(seconds=30)
"""How long a begun request may stay unanswered before a repetition may take it over."""


class IdempotentRequest(msgspec.Struct, frozen=True):
    """A request under its key: its fingerprint, the seed of its ids, and its answer if any."""

    key: str
    fingerprint: str
    seed: str
    status: int | None = None
    headers: dict[str, str] = {}
    answer: bytes | None = None


class IdempotentRequests(Protocol):
    """Requests by key, kept for a day."""

    async def begin(self, asked: IdempotentRequest) -> IdempotentRequest | None:
        """Record a request before it is executed; None if it is new, else the first one."""

    async def take_over(self, first: IdempotentRequest, *, at_once: bool) -> bool:
        """Whether a request that has no answer yet may be executed by the caller.

        Unless `at_once`, only when the first caller has not answered for PATIENCE. After a
        takeover the request cannot be abandoned.
        """

    async def finish(self, asked: IdempotentRequest) -> None:
        """Store the answer, once."""

    async def abandon(self, asked: IdempotentRequest) -> None:
        """Delete a request that failed without effect, so that it can be repeated.

        Does nothing if it was taken over: the other caller may have executed it.
        """

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Delete at most a batch of older requests; returns how many."""
