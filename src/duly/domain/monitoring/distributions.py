"""Distributions of durations: counts by bucket, added up, and read as percentiles.

The buckets of each worker's minute are stored. Bounds may be added at the end, never changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import zip_longest

import msgspec

from duly.records.stats import Percentiles

SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
LATENESS = (*SECONDS, 900.0, 3600.0, 6 * 3600.0, 86400.0)
"""The longest of the bounds: the statements that add buckets up go by its length."""

Buckets = tuple[int, ...]
"""How many values are up to each bound, and in the last place how many are above all."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """The distributions of one period: lateness, time until pickup, and time of the run."""

    lateness: Buckets = (0,) * (len(LATENESS) + 1)
    pickup: Buckets = (0,) * (len(SECONDS) + 1)
    run: Buckets = (0,) * (len(SECONDS) + 1)

    def __bool__(self) -> bool:
        return any(self.pickup) or any(self.run) or any(self.lateness)

    def less(self, before: Times) -> Times:
        """The values of this one that the other does not have."""
        return Times(
            lateness=_difference(self.lateness, before.lateness),
            pickup=_difference(self.pickup, before.pickup),
            run=_difference(self.run, before.run),
        )

    def plus(self, other: Times) -> Times:
        """The values of both."""
        return Times(
            lateness=_sum(self.lateness, other.lateness),
            pickup=_sum(self.pickup, other.pickup),
            run=_sum(self.run, other.run),
        )

    def percentiles(self) -> dict[str, Percentiles | None]:
        """The percentiles of each distribution, as a point of a series has them."""
        return {
            "lateness": percentiles(LATENESS, self.lateness),
            "pickup": percentiles(SECONDS, self.pickup),
            "run": percentiles(SECONDS, self.run),
        }


def spread(bounds: Sequence[float], values: Iterable[tuple[float, int]]) -> Buckets:
    """Values with their weights, by bucket."""
    counts = [0] * (len(bounds) + 1)
    for value, weight in values:
        counts[bisect_left(bounds, value)] += weight
    return tuple(counts)


def percentiles(bounds: Sequence[float], buckets: Buckets) -> Percentiles | None:
    """The estimated percentiles, in seconds; None without values."""
    if not any(buckets):
        return None
    p50, p95, p99 = (_percentile(bounds, buckets, share) for share in (0.5, 0.95, 0.99))
    return Percentiles(p50=p50, p95=p95, p99=p99)


def _percentile(bounds: Sequence[float], buckets: Buckets, share: float) -> float:
    """Values are taken as evenly spread in their bucket; those above all bounds as the last one."""
    wanted, low, below = share * sum(buckets), 0.0, 0
    for high, count in zip(bounds, buckets, strict=False):
        if count and below + count >= wanted:
            return round(low + (high - low) * (wanted - below) / count, 6)
        low, below = high, below + count
    return bounds[-1]


def _difference(buckets: Buckets, before: Buckets) -> Buckets:
    return tuple(a - b for a, b in zip_longest(buckets, before, fillvalue=0))


def _sum(buckets: Buckets, other: Buckets) -> Buckets:
    return tuple(a + b for a, b in zip_longest(buckets, other, fillvalue=0))
