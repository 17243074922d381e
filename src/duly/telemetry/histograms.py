"""A histogram that records many equal values in one call."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from duly.domain.monitoring.distributions import SECONDS

CALLS = (0.0005, *SECONDS[:12])
SIZES = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


class Histogram:
    """Counts of values by bucket, and the sum of all values."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.sum = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float, weight: int = 1) -> None:
        """Record a value with a weight."""
        self._counts[bisect_left(self.bounds, value)] += weight
        self.sum += value * weight

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of values in each bucket."""
        return tuple(self._counts)

    @property
    def count(self) -> int:
        """The number of recorded values."""
        return sum(self._counts)

    def buckets(self) -> Iterator[tuple[str, int]]:
        """Each upper bound with the number of values up to it; the last bound is `+Inf`."""
        bounds = [*(repr(each) for each in self.bounds), "+Inf"]
        return zip(bounds, accumulate(self._counts), strict=True)
