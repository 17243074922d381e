"""Claimed deliveries to hosts that wait for an attempt of their own host to end.

A host may take only a part of the slots. What is claimed ahead for it waits here, so that it never
takes a slot of another target, and nothing waits behind it if the host hangs.
"""

from __future__ import annotations

from collections.abc import Callable

from duly.domain.deliveries.delivery import Claimed
from duly.engine.execution.waiting import Waiting
from duly.engine.targets.admission import AdmissionControl


class Behind:
    """For each host, the deliveries that wait behind its running attempts."""

    def __init__(self, admission: AdmissionControl) -> None:
        self._admission = admission
        self.queues: dict[int, Waiting] = {}
        """None of them is empty."""

    def __len__(self) -> int:
        return sum(map(len, self.queues.values()))

    def hold(self, claimed: list[Claimed], now: float) -> list[Claimed]:
        """Hold what exceeds the slots of its host; returns the others, which can start."""
        hosts = set(filter(self._admission.may_be_behind, {each.target for each in claimed}))
        if not hosts:
            return claimed
        start = [each for each in claimed if each.target not in hosts]
        for target in hosts:
            some = [each for each in claimed if each.target == target]
            self._admission.hold(target, len(some))
            self.queues.setdefault(target, Waiting()).join(some, now)
        # One of each in turn: the slots of a host are a share of what the others leave.
        while next_ones := [each for target in hosts for each in self._next(target)]:
            start += next_ones
        self._drop_empty()
        return start

    def next_of(self, target: int) -> list[Claimed]:
        """Those that can start now, since an attempt of the target has ended."""
        queue = self.queues[target]
        free = min(max(0, -self._admission.excess(target)), len(queue))
        self._admission.hold(target, -free)
        found = [queue.popleft() for _ in range(free)]
        if not queue:
            del self.queues[target]
        return found

    def _next(self, target: int) -> list[Claimed]:
        """The next one of a host, if it has a free slot."""
        queue = self.queues.get(target)
        if not queue or self._admission.excess(target) >= 0:
            return []
        self._admission.hold(target, -1)
        return [queue.popleft()]

    def _drop_empty(self) -> None:
        for target in [target for target, queue in self.queues.items() if not queue]:
            del self.queues[target]

    def take(self, which: Callable[[Claimed], bool]) -> list[Claimed]:
        """Remove and return those for which this is true."""
        return self._taken(lambda queue: queue.take(len(queue), which))

    def take_late(self, now: float) -> list[Claimed]:
        """Remove and return those that have waited for so long that another may be faster."""
        return self._taken(lambda queue: queue.take_late(now))

    def take_all(self, target: int) -> list[Claimed]:
        """Remove and return those that wait for this target."""
        return self._freed(list(self.queues.pop(target, ())))

    def _taken(self, take: Callable[[Waiting], list[Claimed]]) -> list[Claimed]:
        taken = [each for queue in self.queues.values() for each in take(queue)]
        self._drop_empty()
        return self._freed(taken)

    def _freed(self, taken: list[Claimed]) -> list[Claimed]:
        for each in taken:
            self._admission.hold(each.target, -1)
        return taken
