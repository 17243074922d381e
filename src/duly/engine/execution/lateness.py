"""Which attempts are late: first ones are reported, and those that run are counted."""

from __future__ import annotations

from datetime import timedelta

from duly.domain.moments import moment_at
from duly.engine.execution.execution import Execution
from duly.engine.execution.executor import Executor
from duly.engine.execution.settler import Settler
from duly.engine.monitoring.backlog import LateAttempts
from duly.ports import Emit

SURE_US = 1_000_000


class Lateness:
    """Compares when attempts start with when they were due."""

    def __init__(self, executor: Executor, settler: Settler, emit: Emit, grace: timedelta) -> None:
        self.running = LateAttempts()
        self._executor = executor
        self._settler = settler
        self._emit = emit
        self._grace = grace
        self.look_at_clock()

    def look_at_clock(self) -> None:
        """Note which deliveries will be on time if they start within a second.

        Their lateness need not be computed, which takes longer than to compare two numbers.
        """
        self._sure_until_us = self._executor.now_us() + SURE_US
        self._sure_since = moment_at(self._sure_until_us) - self._grace

    def note(self, execution: Execution) -> bool:
        """Report a late first attempt; whether this attempt, first or not, is late."""
        if execution.joins:
            return False  # it is late or not when its turn comes
        claimed = execution.claimed
        if not claimed.attempt and self._is_on_time(execution):
            self._settler.on_time[execution.foreign] += 1
            return False
        if (late := execution.lateness(self._grace)) is not None:
            self._emit(late)
        return execution.started_at - claimed.ready_at > self._grace

    def _is_on_time(self, execution: Execution) -> bool:
        due_at = execution.claimed.due_at
        if due_at >= self._sure_since and execution.started_us <= self._sure_until_us:
            return True
        return execution.started_at - due_at <= self._grace
