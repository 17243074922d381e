"""How often somebody may ask: a bucket that fills steadily and holds a second's worth.

Whoever asks no more often than the rate is never refused, and whoever asks more often gets the
rate: what is refused takes nothing out.
"""

from __future__ import annotations

import msgspec

BURST_SECONDS = 1.0


class Bucket(msgspec.Struct, frozen=True):
    """How much is in it, and when that was so."""

    filled: float
    at: float


def full(rate: float, now: float) -> Bucket:
    """The bucket of somebody new."""
    return Bucket(_most(rate), now)


def take(bucket: Bucket, rate: float, now: float) -> tuple[Bucket, float]:
    """Take one out: what is left, and 0; or, when there is none, how many seconds until there is.

    `now` may be any clock's that never goes back.
    """
    filled = min(_most(rate), bucket.filled + (now - bucket.at) * rate)
    if filled >= 1:
        return Bucket(filled - 1, now), 0.0
    return Bucket(filled, now), (1 - filled) / rate


def _most(rate: float) -> float:
    return max(1.0, rate * BURST_SECONDS)
