"""Moves of many that are interrupted: the batch that has begun ends, and is counted, first.

A batch that was begun is committed whether somebody still waits for it or not. Without its count,
whoever stopped the move would be told a number that is too small.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class Abandoned(asyncio.CancelledError):
    """Cancelled again while the batch that had begun was waited for: it may still be committed."""


async def ended(
    batch: Coroutine[Any, Any, Result],
) -> tuple[Result, asyncio.CancelledError | None]:
    """The result of a batch, and the cancellation that came meanwhile: raise it once counted."""
    task = asyncio.ensure_future(batch)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError as cancelled:
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as again:
            raise Abandoned from again
        return task.result(), cancelled
    return task.result(), None
