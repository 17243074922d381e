"""A cache of keys, each read from the store at most once a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from duly.domain.access.keys import StoredKey, digest, id_in
from duly.ports import Clock
from duly.records.key import KeyState

FRESH_SECONDS = 1.0
"""How long a key is cached, and a revoked key may still be accepted."""
MOST_KEPT = 10_000
Check = Callable[[str], Awaitable[StoredKey | None]]


class CachedKey(msgspec.Struct, frozen=True):
    """The key of a token, and when it was read."""

    key: StoredKey | None
    at: float


class KeyCache:
    """Keys by the hash of their token."""

    def __init__(self, check: Check, clock: Clock) -> None:
        self._check = check
        self._clock = clock
        self._seen: dict[bytes, CachedKey] = {}
        self._reading: dict[bytes, asyncio.Task[CachedKey]] = {}

    async def key(self, token: str) -> StoredKey | None:
        """The active key of a token, or None."""
        if id_in(token) is None:
            return None
        hash = digest(token)
        seen = self._seen.get(hash)
        if seen is None or self._clock.monotonic() - seen.at >= FRESH_SECONDS:
            seen = await self._read(hash, token)
        if seen.key is None or seen.key.state(self._clock.now()) is not KeyState.ACTIVE:
            return None
        return seen.key

    async def _read(self, hash: bytes, token: str) -> CachedKey:
        """Read the key from the store, once for all requests that wait for it."""
        reading = self._reading.get(hash)
        if reading is None:
            reading = asyncio.get_running_loop().create_task(self._read_key(hash, token))
            self._reading[hash] = reading
            reading.add_done_callback(lambda task: self._finished(hash, task))
        # The first request may be cancelled while others wait.
        return await asyncio.shield(reading)

    async def _read_key(self, hash: bytes, token: str) -> CachedKey:
        # The time before the read: a key revoked during the read is not cached for longer.
        started_at = self._clock.monotonic()
        seen = CachedKey(await self._check(token), started_at)
        self._forget_some()
        self._seen[hash] = seen
        return seen

    def _finished(self, hash: bytes, task: asyncio.Task[CachedKey]) -> None:
        del self._reading[hash]
        if not task.cancelled():
            # Retrieved, since all requests that waited may have been cancelled.
            task.exception()

    def _forget_some(self) -> None:
        if len(self._seen) < MOST_KEPT:
            return
        since = self._clock.monotonic() - FRESH_SECONDS
        self._seen = {hash: seen for hash, seen in self._seen.items() if seen.at > since}
        if len(self._seen) >= MOST_KEPT:
            self._seen.clear()
