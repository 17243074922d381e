"""Deadlines of many attempts with one timer: all timeouts are equal, so the oldest ends first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from duly.ports import Execution

FIRST_AGAIN, LONGEST_AGAIN = 1.0, 30.0
"""Seconds before an attempt that still runs is cancelled again; doubled each time."""


class Deadlines:
    """Cancels attempts that pass their deadline, repeatedly until they end.

    One timer for each attempt would cost more than the rest of a short attempt.
    """

    def __init__(self, seconds: float, on_overrun: Callable[[Execution], None]) -> None:
        self._seconds = seconds
        self._on_overrun = on_overrun
        self._reported: set[Execution] = set()
        self._ends: dict[Execution, float] = {}
        self._passed: dict[Execution, int] = {}
        """Attempts past their deadline, with how often each was cancelled."""
        self._timer: asyncio.TimerHandle | None = None
        self._now: Callable[[], float]

    def reset(self) -> None:
        """Forget abandoned attempts and the event loop in which they ran.

        Otherwise attempts on a new loop would rely on a timer that never fires.
        """
        self._ends.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def add(self, execution: Execution) -> None:
        """Start the attempt's timeout."""
        if self._timer is None:
            self._start()
        self._ends[execution] = self._now() + self._seconds

    def _start(self) -> None:
        # Asked once, and not for each attempt: as long as there is a timer, it is the same loop.
        loop = asyncio.get_running_loop()
        self._now = loop.time
        self._timer = loop.call_later(self._seconds, self._cancel_overdue)

    def remove(self, execution: Execution) -> bool:
        """Stop the timeout of a finished attempt; returns whether the deadline had passed."""
        self._ends.pop(execution, None)
        if not self._passed:
            return False
        self._reported.discard(execution)
        for _ in range(cancelled := self._passed.pop(execution, 0)):
            execution.task.uncancel()
        return cancelled > 0

    def passed(self, execution: Execution) -> bool:
        """Whether the attempt's deadline has passed."""
        return execution in self._passed

    def overran(self, execution: Execution) -> None:
        """Report, once for each attempt, that it still runs although it was cancelled."""
        if execution not in self._reported:
            self._reported.add(execution)
            self._on_overrun(execution)

    def _cancel_overdue(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for execution, ends in list(self._ends.items()):
            if ends > loop.time():
                self._timer = loop.call_at(ends, self._cancel_overdue)
                break
            del self._ends[execution]
            self._cancel(execution, FIRST_AGAIN)

    def _cancel(self, execution: Execution, delay: float) -> None:
        self._passed[execution] = self._passed.get(execution, 0) + 1
        execution.task.cancel()
        asyncio.get_running_loop().call_later(delay, self._cancel_again, execution, delay)

    def _cancel_again(self, execution: Execution, last_delay: float) -> None:
        # Only this attempt: the delivery's next attempt is another object.
        if execution in self._passed:
            self.overran(execution)
            self._cancel(execution, min(last_delay * 2, LONGEST_AGAIN))
