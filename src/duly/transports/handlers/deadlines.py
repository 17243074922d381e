"""Deadlines of many attempts with one timer: all have the same length, so the oldest is next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from duly.ports import Execution

FIRST_AGAIN, LONGEST_AGAIN = 1.0, 30.0
"""Seconds after which an attempt that goes on is cancelled again; doubled each time."""


class Deadlines:
    """Cancels attempts that are still here when their time is over, until they end.

    A timer of its own for each attempt would cost more than the rest of a short attempt.
    """

    def __init__(self, seconds: float, on_overrun: Callable[[Execution], None]) -> None:
        self._seconds = seconds
        self._on_overrun = on_overrun
        self._overrun: set[Execution] = set()
        self._ends: dict[Execution, float] = {}
        self._passed: dict[Execution, int] = {}
        """How often each was cancelled here."""
        self._timer: asyncio.TimerHandle | None = None

    def begin_anew(self) -> None:
        """Forget the attempts that were given up, and the event loop in which they ran.

        Otherwise the next loop would rely on a timer that never rings.
        """
        self._ends.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def add(self, execution: Execution) -> None:
        """Start the attempt's time."""
        loop = asyncio.get_running_loop()
        self._ends[execution] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._look)

    def remove(self, execution: Execution) -> bool:
        """The attempt is over: take back what cancelled it; whether that was too late."""
        self._ends.pop(execution, None)
        if not self._passed:
            return False
        self._overrun.discard(execution)
        for _ in range(cancelled := self._passed.pop(execution, 0)):
            execution.task.uncancel()
        return cancelled > 0

    def passed(self, execution: Execution) -> bool:
        """Whether the attempt's time is over."""
        return execution in self._passed

    def overran(self, execution: Execution) -> None:
        """The attempt goes on although it was cancelled: say so, once."""
        if execution not in self._overrun:
            self._overrun.add(execution)
            self._on_overrun(execution)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for execution, ends in list(self._ends.items()):
            if ends > loop.time():
                self._timer = loop.call_at(ends, self._look)
                break
            del self._ends[execution]
            self._cancel(execution, FIRST_AGAIN)

    def _cancel(self, execution: Execution, again: float) -> None:
        self._passed[execution] = self._passed.get(execution, 0) + 1
        execution.task.cancel()
        asyncio.get_running_loop().call_later(again, self._cancel_again, execution, again)

    def _cancel_again(self, execution: Execution, waited: float) -> None:
        # The same attempt only: the next of its delivery is another object.
        if execution in self._passed:
            self.overran(execution)
            self._cancel(execution, min(waited * 2, LONGEST_AGAIN))
