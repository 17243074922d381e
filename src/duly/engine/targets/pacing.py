"""The moments at which admitted deliveries of targets with a rate limit start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from duly.domain.deliveries.delivery import Claimed
from duly.domain.endpoints.gates import Pace

GRAIN_SECONDS = 0.002
"""Deliveries that start this close together start together: timers cost time, too."""


class Pacing:
    """For each target with a rate: when its next admitted delivery starts, and at which interval.

    Many workers together start the deliveries of a target evenly: each gets other places in the
    sequence from the gate.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._next: dict[int, tuple[float, float]] = {}

    @property
    def is_used(self) -> bool:
        """Whether any target has a rate."""
        return bool(self._next)

    def set(self, target: int, pace: Pace | None) -> None:
        """Set when the deliveries start that the gate has just admitted."""
        if pace is None:
            self._next.pop(target, None)
        else:
            self._next[target] = (self._monotonic() + pace.first_in, pace.interval)

    def forget_all_but(self, targets: Collection[int]) -> None:
        """Forget the targets that have no limit any more."""
        self._next = {each: self._next[each] for each in self._next.keys() & set(targets)}

    def by_delay(self, claimed: Iterable[Claimed]) -> dict[float, list[Claimed]]:
        """The deliveries by the seconds until they start, zero for at once."""
        now, found = self._monotonic(), dict[float, list[Claimed]]()
        for each in claimed:
            found.setdefault(self._delay(each.target, now), []).append(each)
        return found

    def _delay(self, target: int, now: float) -> float:
        paced = self._next.get(target)
        if paced is None:
            return 0.0
        starts_on, interval = paced
        self._next[target] = (starts_on + interval, interval)
        return round(max(0.0, starts_on - now) / GRAIN_SECONDS) * GRAIN_SECONDS
