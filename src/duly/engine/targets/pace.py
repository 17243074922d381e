"""How fast this worker completes the deliveries of each target, and so how many it may hold ahead.

What a worker holds ahead, its slots take over without waiting for the next claim. It must be
little, since other workers could run it meanwhile: what this worker completes in 50 ms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from math import exp

AHEAD_SECONDS = 0.05
MOST_AHEAD = 2000
MEMORY_SECONDS = 0.2
"""How fast the past is forgotten; a target that hangs has nothing ahead after a second."""
SHORTEST_LOOK_SECONDS = 0.01


class Pace:
    """For each target, how many of its lanes lately ended in a second.

    The average is weighted by time: if it were weighted by call, a moment with many calls would
    count for more than a long silence.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.ended: defaultdict[int, int] = defaultdict(int)
        """Attempts that ended since the last look; what was handed back is not among them."""
        self._monotonic = monotonic
        self._rates: dict[int, float] = {}
        self._looked_on = monotonic()
        self._rests_until = float("-inf")

    def rest(self, seconds: float) -> None:
        """Let nothing be held ahead for some seconds."""
        self._rests_until = self._monotonic() + seconds

    def ahead(self, target: int) -> int:
        """How many lanes of the target may be held ahead."""
        self.look()
        if self._looked_on < self._rests_until:
            return 0
        return min(int(self._rates.get(target, 0.0) * AHEAD_SECONDS), MOST_AHEAD)

    def forget(self, target: int) -> None:
        """Hold nothing ahead for the target until more of its attempts end."""
        self._rates.pop(target, None)
        self.ended.pop(target, None)

    def total(self, targets: Iterable[int]) -> int:
        """How many lanes of these targets may be held ahead; 0 if any of them is too slow."""
        each = [self.ahead(target) for target in targets]
        return min(sum(each), MOST_AHEAD) if all(each) else 0

    def look(self) -> None:
        """Update the rates with what ended since the last time."""
        now = self._monotonic()
        seconds = now - self._looked_on
        if seconds < SHORTEST_LOOK_SECONDS:
            return
        weight = 1 - exp(-seconds / MEMORY_SECONDS)
        for target in self._rates.keys() | self.ended.keys():
            before, now_rate = self._rates.get(target, 0.0), self.ended[target] / seconds
            self._rates[target] = before + weight * (now_rate - before)
        # Hosts may be many: only those are kept that could have something ahead soon.
        self._rates = {target: rate for target, rate in self._rates.items() if rate >= 1}
        self.ended.clear()
        self._looked_on = now
