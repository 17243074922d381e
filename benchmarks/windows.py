"""Waits in short windows: a machine with noisy moments still has quiet ones, alone and beside."""

import statistics
from collections import defaultdict
from collections.abc import Iterable

WINDOW_SECONDS = 5.0
LEAST = 50
"""Fewer waits than that say nothing."""

Waited = tuple[float, float]
"""When something was asked for, and how long it waited."""


def p99s(waits: Iterable[Waited]) -> list[float]:
    """The p99 of each window."""
    windows: dict[int, list[float]] = defaultdict(list)
    for asked, wait in waits:
        windows[int(asked / WINDOW_SECONDS)].append(wait)
    return [_p99(each) for each in windows.values() if len(each) >= LEAST]


def typical_p99(waits: Iterable[Waited]) -> float:
    """The p99 of the window in the middle."""
    return statistics.median(p99s(waits))


def _p99(waits: list[float]) -> float:
    return statistics.quantiles(waits, n=100)[98]
