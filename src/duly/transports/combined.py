"""Combines several transports: the first one that reaches a target makes the attempt."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from duly.domain.deliveries.outcomes import Outcome
from duly.ports import Execution, Transport
from duly.records.retry_plan import RetryPlan


class Routes:
    """Several transports used as one."""

    def __init__(self, *transports: Transport) -> None:
        self._transports = transports

    def serves(self) -> Sequence[str]:
        """The targets that the transports serve by name."""
        return [name for each in self._transports for name in each.serves()]

    def reaches(self, target: str) -> bool:
        """Whether any transport reaches the target."""
        return any(each.reaches(target) for each in self._transports)

    def plan(self, target: str, namespace: str) -> RetryPlan:
        """The retry plan of the transport that reaches the target."""
        return self._transport_for(target).plan(target, namespace)

    def attempt(self, execution: Execution) -> Coroutine[Any, Any, Outcome]:
        """Make the attempt with the transport that reaches the target."""
        # Not a coroutine of its own, which would be resumed each time the attempt is.
        return self._transport_for(execution.target).attempt(execution)

    def _transport_for(self, target: str) -> Transport:
        for each in self._transports:
            if each.reaches(target):
                return each
        return self._transports[0]
