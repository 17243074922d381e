"""The rate limit of each key, shared by all servers of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from duly.domain.access import rate_limits
from duly.domain.access.rate_limits import Bucket
from duly.errors import StoreUnavailable
from duly.ports import Clock

Spend = Callable[[str, int, float], Awaitable[float]]
"""Takes uses of a key from the shared bucket with that rate; returns what is left in it."""


class Uses:
    """The uses of a key on this server, and how many the store does not know yet."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.unreported = 0
        self.reporting: asyncio.Task[None] | None = None


class RateLimit:
    """Limits the rate of each key; without `spend` there is only this server."""

    def __init__(self, clock: Clock, rate: float, spend: Spend | None) -> None:
        self._clock = clock
        self._rate = rate
        self._spend = spend
        self._uses: dict[str, Uses] = {}

    def wait(self, id: str) -> float:
        """Count one use of a key; 0, or the seconds until it may be used again."""
        now = self._clock.monotonic()
        if id not in self._uses:
            self._uses[id] = Uses(rate_limits.full(self._rate, now))
        uses = self._uses[id]
        uses.bucket, wait = rate_limits.take(uses.bucket, self._rate, now)
        if not wait and self._spend is not None:
            self._note(id, uses, self._spend)
        return wait

    def _note(self, id: str, uses: Uses, spend: Spend) -> None:
        uses.unreported += 1
        if uses.reporting is None and rate_limits.is_to_be_told(uses.unreported, self._rate):
            uses.reporting = asyncio.get_running_loop().create_task(self._report(id, uses, spend))

    async def _report(self, id: str, uses: Uses, spend: Spend) -> None:
        reported, uses.unreported, asked_at = uses.unreported, 0, self._clock.monotonic()
        try:
            left = await spend(id, reported, self._rate)
            # Uses during the call are not taken from the shared bucket yet.
            shared = Bucket(left - uses.unreported, asked_at)
            now = self._clock.monotonic()
            uses.bucket = rate_limits.lesser(uses.bucket, shared, self._rate, now)
        except StoreUnavailable:
            # They are reported with the next ones.
            uses.unreported += reported
        finally:
            uses.reporting = None
