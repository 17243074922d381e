"""Bulk operations through a server: repeated calls, each for a second, at one rate over all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from duly.client.requester import Requester
from duly.ports import Clock
from duly.records.dead_letter import BulkProgress, BulkResult
from duly.services.interruption import ended

CALL_SECONDS = 1.0
"""How long one call may take: progress comes this often, and cancelling waits this long."""


class Moving:
    """Repeats a bulk operation until it is finished."""

    def __init__(self, requester: Requester, clock: Clock) -> None:
        self._requester = requester
        self._clock = clock

    async def all(
        self, place: tuple[str, ...], body: Mapping[str, Any], rate: float | None = None
    ) -> AsyncIterator[BulkProgress]:
        """Move all, at most `rate` a second; yields the progress.

        The `until` of the first answer is kept, so that those that die again are not moved again.
        """
        began, done, total, until = self._clock.monotonic(), 0, 0, body.get("until")
        while True:
            request = {**body, "until": until, "seconds": CALL_SECONDS}
            work = self._requester.post(BulkResult, *place, body=request, once=True)
            moved, cancelled = await ended(work)
            done, total = done + moved.moved, max(total, done + moved.matching)
            until = moved.until or until
            if moved.moved and until is not None:
                yield BulkProgress(done=done, total=total, until=until)
            if cancelled is not None:
                raise cancelled
            if moved.finished:
                return
            ahead = began + (done / rate if rate else 0.0) - self._clock.monotonic()
            if ahead > 0:
                await self._clock.sleep(ahead)
