"""Requests that move many things: for a limited time, and only while the caller waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Protocol

from msgspec import Meta

from duly.ports import Clock
from duly.records.dead_letter import BulkProgress, BulkResult
from duly.surfaces.http.protocol.hangups import while_connected
from duly.surfaces.http.protocol.request import Request

BUDGET_SECONDS = 20.0
"""How long one call moves them; repeat it to continue."""
Seconds = Annotated[
    float, Meta(gt=0, le=BUDGET_SECONDS, description="for how long this call may move them")
]


class BulkBody(Protocol):
    """What every body of such a request has."""

    @property
    def seconds(self) -> float: ...
    @property
    def dry_run(self) -> bool: ...


async def run_bulk(
    request: Request,
    clock: Clock,
    body: BulkBody,
    matching: int,
    moves: AsyncIterator[BulkProgress],
    rate: float | None = None,
) -> BulkResult:
    """Move them for up to the body's `seconds`; with `dry_run`, only tell how many match."""
    if body.dry_run:
        return BulkResult(matching=matching)
    work = _moved(matching, moves, clock, body.seconds, rate)
    return await while_connected(request.receive, work)


async def _moved(
    matching: int,
    moves: AsyncIterator[BulkProgress],
    clock: Clock,
    seconds: float,
    rate: float | None,
) -> BulkResult:
    """The result after `seconds`, which include the wait for the next one.

    If it is cancelled, it finishes the current batch and returns the result so far.
    """
    begun, done, until, finished = clock.monotonic(), 0, None, True
    try:
        async for progress in moves:
            done, until = progress.done, progress.until
            next_at = max(clock.monotonic() - begun, done / rate if rate else 0.0)
            if next_at > seconds:
                finished = done >= progress.total
                break
    except asyncio.CancelledError:
        finished = False
    return BulkResult(matching=matching, moved=done, until=until, finished=finished)
