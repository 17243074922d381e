"""Moving many through a server: call after call, each for some seconds, at one pace over all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from duly.client.connection import Wire
from duly.ports import BulkProgress, Clock
from duly.services.interruption import ended

CALL_SECONDS = 1.0
"""How long the server moves before it says how far it is, and whoever stops it has to wait."""


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """How many there were, how many were moved, and how to go on."""

    matching: int
    moved: int
    until: datetime | None
    finished: bool


class Moving:
    """Moves that one call cannot finish."""

    def __init__(self, wire: Wire, clock: Clock) -> None:
        self._wire = wire
        self._clock = clock

    async def all(
        self, place: tuple[str, ...], body: Mapping[str, Any], rate: float | None = None
    ) -> AsyncIterator[BulkProgress]:
        """Move all, at most `rate` a second; yields how far it is.

        The first answer tells until when it looks, so that those which die anew are left alone.
        """
        began, done, total, until = self._clock.monotonic(), 0, 0, body.get("until")
        while True:
            asked = {**body, "until": until, "seconds": CALL_SECONDS}
            moved, cancelled = await ended(self._wire.post(Moved, *place, body=asked, once=True))
            done, total = done + moved.moved, max(total, moved.matching)
            until = moved.until or until
            if moved.moved and until is not None:
                yield BulkProgress(done, total, until)
            if cancelled is not None:
                raise cancelled
            if moved.finished:
                return
            ahead = began + (done / rate if rate else 0.0) - self._clock.monotonic()
            if ahead > 0:
                await self._clock.sleep(ahead)
