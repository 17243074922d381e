"""How often somebody may ask: a bucket that fills steadily and holds a second's worth.

Whoever asks no more often than the rate is never refused, and whoever asks more often gets the
rate: what is refused takes nothing out.

Servers that share a store share a bucket there. Each lets pass what its own bucket allows and takes
that out of the shared one a little later, which may leave a debt; then its own holds no more than
the shared one. So nobody waits for the store, and all of them together keep to the rate.
"""

from __future__ import annotations

import msgspec

BURST_SECONDS = 1.0
SHARED_BURST_SECONDS = 2.0
"""The shared bucket holds more, since it hears late: nobody is refused for what is long made up."""
TOLD_SECONDS = 0.1
"""How much a server lets pass, in seconds of the rate, before it tells the others."""


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
    filled = _filled(bucket, rate, now)
    if filled >= 1:
        return Bucket(filled - 1, now), 0.0
    return Bucket(filled, now), (1 - filled) / rate


def lesser(bucket: Bucket, other: Bucket, rate: float, now: float) -> Bucket:
    """What both allow."""
    return Bucket(min(_filled(bucket, rate, now), _filled(other, rate, now)), now)


def most_shared(rate: float) -> float:
    """What the bucket of all servers holds."""
    return max(2.0, rate * SHARED_BURST_SECONDS)


def is_to_be_told(uses: int, rate: float) -> bool:
    """Whether a server has let so much pass that the others should know."""
    return uses >= rate * TOLD_SECONDS


def _filled(bucket: Bucket, rate: float, now: float) -> float:
    return min(_most(rate), bucket.filled + (now - bucket.at) * rate)


def _most(rate: float) -> float:
    return max(1.0, rate * BURST_SECONDS)
