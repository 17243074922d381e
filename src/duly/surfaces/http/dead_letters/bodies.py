"""Queries and bodies of `/v1/dead-letters`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from duly.errors import InvalidInput
from duly.ports import Clock
from duly.records.dead_letter import BulkProgress, BulkResult, DeadLetterCriteria, DeadLetterFilter
from duly.surfaces.http.protocol.pages import Cursor, Limit, Most, Payloads

BUDGET_SECONDS = 20.0
"""How long one call moves dead letters; repeat it to continue."""
Seconds = Annotated[
    float, Meta(gt=0, le=BUDGET_SECONDS, description="for how long this call may move them")
]
MOST_IDS = 10_000


class GroupQuery(DeadLetterCriteria, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters to group, and how many groups to list."""

    limit: Most = 50


class DeadQuery(DeadLetterCriteria, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters to list."""

    payloads: Payloads = False
    cursor: Cursor | None = None
    limit: Limit = 50


class PoisonQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many to list, and which."""

    last_attempts: Annotated[
        bool, Meta(description="also list those whose next attempt is their last")
    ] = False
    payloads: Payloads = False
    limit: Most = 50


class Which(DeadLetterFilter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters to move: by their ids, by a filter, or all of them."""

    ids: Annotated[tuple[str, ...], Meta(max_length=MOST_IDS)] = ()
    all: Annotated[bool, Meta(description="all there are, without a filter")] = False
    seconds: Seconds = BUDGET_SECONDS
    dry_run: Annotated[bool, Meta(description="only count")] = False

    def check(self) -> None:
        """Refuse to select all dead letters unless `all` says so."""
        if self.is_all != self.all:
            raise InvalidInput("all", "give ids or a filter, or all: true and neither of them")


class Retry(Which, frozen=True, kw_only=True):
    """Which to try again, and how fast."""

    EXAMPLE: ClassVar = {"reason": "timeout_exceeded", "rate": 50, "dry_run": True}
    rate: Annotated[float, Meta(gt=0, description="the most per second")] | None = None
    reset_attempts: Annotated[bool, Meta(description="they get all their attempts again")] = True


class Discard(Which, frozen=True, kw_only=True):
    """Which to give up, and why."""

    EXAMPLE: ClassVar = {"tag": "old", "note": "the customer has left"}
    note: str


class RetryOne(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to try one again."""

    EXAMPLE: ClassVar = {"reset_attempts": True}
    reset_attempts: Annotated[bool, Meta(description="it gets all its attempts again")] = True


class DiscardOne(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why it is given up."""

    EXAMPLE: ClassVar = {"note": "the customer has left"}
    note: str


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What it is to deliver instead."""

    EXAMPLE: ClassVar = {"payload": {"hello": "world"}}
    payload: Annotated[msgspec.Raw, Meta(description="any JSON; it is kept and sent as it is")]


async def carried_out(
    matching: int,
    moves: AsyncIterator[BulkProgress],
    clock: Clock,
    seconds: float,
    rate: float | None = None,
) -> BulkResult:
    """Move them for up to `seconds`, including the wait for the next one.

    If it is cancelled, it finishes the present batch and returns what was done.
    """
    begun, done, until, finished = clock.monotonic(), 0, None, True
    try:
        async for progress in moves:
            done, until = progress.done, progress.until
            goes_on_at = max(clock.monotonic() - begun, done / rate if rate else 0.0)
            if goes_on_at > seconds:
                finished = done >= progress.total
                break
    except asyncio.CancelledError:
        finished = False
    return BulkResult(matching=matching, moved=done, until=until, finished=finished)
