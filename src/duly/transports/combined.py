"""All ways out of the building as one: the first that reaches a target takes it there."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain.deliveries.outcomes import Outcome
from duly.domain.deliveries.retry import RetryPlan
from duly.ports import Execution, Transport


class Routes:
    """Several transports as one."""

    def __init__(self, *transports: Transport) -> None:
        self._transports = transports

    def serves(self) -> Sequence[str]:
        """The targets that any of them serves by name."""
        return [name for each in self._transports for name in each.serves()]

    def reaches(self, target: str) -> bool:
        """Whether any of them reaches the target."""
        return any(each.reaches(target) for each in self._transports)

    def plan(self, target: str, namespace: str) -> RetryPlan:
        """The plan of the transport that takes it."""
        return self._to(target).plan(target, namespace)

    async def attempt(self, execution: Execution) -> Outcome:
        """Have the attempt made."""
        return await self._to(execution.target).attempt(execution)

    def _to(self, target: str) -> Transport:
        for each in self._transports:
            if each.reaches(target):
                return each
        return self._transports[0]
