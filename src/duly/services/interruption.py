"""Interrupted bulk operations: the batch that has begun is finished and counted first.

A batch is committed even if its caller is cancelled; without its count, the reported number would
be too small.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class Abandoned(asyncio.CancelledError):
    """Cancelled again while the last batch ran: it may still be committed."""


async def ended(
    batch: Coroutine[Any, Any, Result],
) -> tuple[Result, asyncio.CancelledError | None]:
    """The result of a batch, and a cancellation meanwhile, to be raised after counting."""
    task = asyncio.ensure_future(batch)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError as cancelled:
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as second:
            raise Abandoned from second
        return task.result(), cancelled
    return task.result(), None
