"""Rate limits as token buckets: a bucket refills at the rate and holds one second of it.

A caller within the rate is never refused, and a faster caller gets exactly the rate: a refused
request takes nothing out of the bucket.

Servers that share a store also share a bucket there. Each admits what its own bucket allows and
reports it to the shared bucket later, which may go below zero; then it lowers its own bucket to the
shared one. So no request waits for the store, and all servers together keep to the rate.
"""

from __future__ import annotations

import msgspec

BURST_SECONDS = 1.0
SHARED_BURST_SECONDS = 2.0
"""More than a server's own bucket: uses are reported late, and the refill until then must fit."""
TOLD_SECONDS = 0.1
"""How much a server admits, in seconds of the rate, before it reports to the shared bucket."""


class Bucket(msgspec.Struct, frozen=True):
    """The level of a bucket at a moment."""

    filled: float
    at: float


def full(rate: float, now: float) -> Bucket:
    """The bucket of a new caller."""
    return Bucket(_capacity(rate), now)


def take(bucket: Bucket, rate: float, now: float) -> tuple[Bucket, float]:
    """Take one out: the new bucket, and 0 or the seconds to wait until one is available.

    `now` may come from any clock that never goes back.
    """
    filled = _level(bucket, rate, now)
    if filled >= 1:
        return Bucket(filled - 1, now), 0.0
    return Bucket(filled, now), (1 - filled) / rate


def lesser(bucket: Bucket, other: Bucket, rate: float, now: float) -> Bucket:
    """The lower of two buckets."""
    return Bucket(min(_level(bucket, rate, now), _level(other, rate, now)), now)


def most_shared(rate: float) -> float:
    """The capacity of the shared bucket."""
    return max(2.0, rate * SHARED_BURST_SECONDS)


def is_to_be_told(uses: int, rate: float) -> bool:
    """Whether a server should report its uses to the shared bucket now."""
    return uses >= rate * TOLD_SECONDS


def _level(bucket: Bucket, rate: float, now: float) -> float:
    return min(_capacity(rate), bucket.filled + (now - bucket.at) * rate)


def _capacity(rate: float) -> float:
    return max(1.0, rate * BURST_SECONDS)
