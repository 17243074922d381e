"""The queue of claimed deliveries that are not started yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from duly.domain.deliveries.delivery import Claimed
from duly.engine.targets.pace import AHEAD_SECONDS

LONGEST_HOLD_SECONDS = 0.25


class Waiting(deque[Claimed]):
    """The most urgent first; but what has waited for long goes before all that comes later."""

    def __init__(self) -> None:
        super().__init__()
        self._since: dict[int, float] = {}

    def join(self, claimed: Sequence[Claimed], now: float) -> None:
        """Add the deliveries of one claim, in their order, before the less urgent ones."""
        if not claimed:
            return
        least = self[-1].priority if self else None
        self._since = {
            token: since
            for token, since in self._since.items()
            if since > now - 2 * LONGEST_HOLD_SECONDS
        }
        self._since |= dict.fromkeys({each.token for each in claimed}, now)
        self.extend(claimed)
        if least is not None and any(each.priority > least for each in claimed):
            self._sort(now - AHEAD_SECONDS)

    def go_on(self, claimed: Sequence[Claimed], now: float) -> None:
        """Add deliveries before all others."""
        for each in claimed:
            self._since[each.token] = now
        self.extendleft(reversed(claimed))

    def _sort(self, before: float) -> None:
        # Otherwise a steady flow of urgent ones would keep back the others that were claimed.
        first = [each for each in self if self.since(each) <= before]
        rest = [each for each in self if self.since(each) > before]
        rest.sort(key=_urgency)
        self.clear()
        self.extend(first)
        self.extend(rest)

    def since(self, claimed: Claimed) -> float:
        """When it was claimed; the tokens of older claims are not kept."""
        return self._since.get(claimed.token, float("-inf"))

    def is_late(self, now: float) -> bool:
        """Whether the first waits for too long; none behind it waits for much longer."""
        return bool(self) and self.since(self[0]) <= now - LONGEST_HOLD_SECONDS

    def take_late(self, now: float) -> list[Claimed]:
        """Remove and return those that wait for too long."""
        if not self.is_late(now):
            return []
        before = now - LONGEST_HOLD_SECONDS
        return self.take(len(self), lambda each: self.since(each) <= before)

    def take(self, last: int, which: Callable[[Claimed], bool]) -> list[Claimed]:
        """Remove and return those of the last ones for which this is true."""
        kept: list[Claimed] = []
        taken: list[Claimed] = []
        for _ in range(min(last, len(self))):
            each = self.pop()
            (taken if which(each) else kept).append(each)
        self.extend(reversed(kept))
        taken.reverse()
        return taken


def _urgency(claimed: Claimed) -> int:
    return -claimed.priority
