"""Counts in Redis, one hash for each schedule and minute; failures are returned, never raised."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from duly.domain.database_urls import AMBIGUOUS, address, is_ambiguous
from duly.domain.monitoring.schedule_counts import Count, key_of
from duly.errors import BadSetting
from duly.ports import AnalyticsFailure

PATIENCE_SECONDS = 2.0


class RedisAnalytics:
    """Adds counts with HINCRBY; each key expires after `keep`."""

    def __init__(self, url: str, namespace: str, keep: timedelta) -> None:
        self._namespace = namespace
        self._keep = int(keep.total_seconds())
        self._redis = _client(url)

    async def add(self, counts: Mapping[Count, int]) -> AnalyticsFailure | None:
        """Add counts; returns None, or within `PATIENCE_SECONDS` what went wrong."""
        unsent = True
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._redis.ping()
                if counts:
                    unsent = False
                    await self._write(counts)
        except Exception as error:
            return AnalyticsFailure(f"Redis: {str(error) or type(error).__name__}", unsent)
        return None

    async def _write(self, counts: Mapping[Count, int]) -> None:
        keys = {count: key_of(self._namespace, count) for count in counts}
        # Without a transaction, which would need all keys on one node of a cluster.
        async with self._redis.pipeline(transaction=False) as pipeline:
            for count, number in counts.items():
                pipeline.hincrby(keys[count], count.field, number)
            for key in set(keys.values()):
                pipeline.expire(key, self._keep)
            await pipeline.execute()

    async def close(self) -> None:
        """Close the connection."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._redis.aclose()
        except Exception:
            return  # the connection is not used again


def _client(url: str) -> Any:
    try:
        # An optional dependency.
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError as error:
        raise BadSetting(
            "analytics", "it needs the package redis: pip install 'duly[analytics]'"
        ) from error
    if is_ambiguous(url):
        raise BadSetting("analytics", AMBIGUOUS)
    try:
        return Redis.from_url(
            address(url).encoded,
            socket_timeout=PATIENCE_SECONDS,
            socket_connect_timeout=PATIENCE_SECONDS,
            # The next flush tries again.
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError as error:
        raise BadSetting("analytics", f"this is no address of a Redis: {error}") from error
