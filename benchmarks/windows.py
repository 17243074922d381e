"""Waits in short windows: a noisy machine has quiet moments too."""

import statistics
from collections import defaultdict
from collections.abc import Iterable

WINDOW_SECONDS = 5.0
LEAST = 50
"""Fewer waits are not significant."""

Waited = tuple[float, float]
"""When something was requested, and how long it waited."""


def p99s(waits: Iterable[Waited]) -> list[float]:
    """The p99 of each window."""
    windows: dict[int, list[float]] = defaultdict(list)
    for requested_at, wait in waits:
        windows[int(requested_at / WINDOW_SECONDS)].append(wait)
    return [_p99(each) for each in windows.values() if len(each) >= LEAST]


def typical_p99(waits: Iterable[Waited]) -> float:
    """The p99 of the median window."""
    return statistics.median(p99s(waits))


def _p99(waits: list[float]) -> float:
    return statistics.quantiles(waits, n=100)[98]
