"""How often each key asks, here and at all other servers of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from duly.domain.access import rate_limits
from duly.domain.access.rate_limits import Bucket
from duly.errors import StoreUnavailable
from duly.ports import Clock

Spend = Callable[[str, int, float], Awaitable[float]]
"""Takes a key's uses out of the bucket of all servers, at that rate; what is left in it."""


class Uses:
    """What a key did here: what it may yet do, and what nobody else knows of."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.untold = 0
        self.telling: asyncio.Task[None] | None = None


class Pace:
    """Lets each key ask at a rate; without `spend` there is nobody to share it with."""

    def __init__(self, clock: Clock, rate: float, spend: Spend | None) -> None:
        self._clock = clock
        self._rate = rate
        self._spend = spend
        self._uses: dict[str, Uses] = {}

    def wait(self, id: str) -> float:
        """Count one use of a key: 0, or how many seconds until it may be used again."""
        now = self._clock.monotonic()
        if id not in self._uses:
            self._uses[id] = Uses(rate_limits.full(self._rate, now))
        uses = self._uses[id]
        uses.bucket, wait = rate_limits.take(uses.bucket, self._rate, now)
        if not wait and self._spend is not None:
            self._note(id, uses, self._spend)
        return wait

    def _note(self, id: str, uses: Uses, spend: Spend) -> None:
        uses.untold += 1
        if uses.telling is None and rate_limits.is_to_be_told(uses.untold, self._rate):
            uses.telling = asyncio.get_running_loop().create_task(self._tell(id, uses, spend))

    async def _tell(self, id: str, uses: Uses, spend: Spend) -> None:
        told, uses.untold, asked_at = uses.untold, 0, self._clock.monotonic()
        try:
            left = await spend(id, told, self._rate)
            # What passed meanwhile is not taken out yet.
            shared = Bucket(left - uses.untold, asked_at)
            now = self._clock.monotonic()
            uses.bucket = rate_limits.lesser(uses.bucket, shared, self._rate, now)
        except StoreUnavailable:
            # With the next ones, then.
            uses.untold += told
        finally:
            uses.telling = None
