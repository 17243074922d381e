"""The events of attempts that did not complete their delivery."""

from __future__ import annotations

from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.events import AttemptFailed, DeliveryCancelled, Event
from duly.engine.execution.execution import Execution


def failure(execution: Execution, settlement: Settlement) -> Event | None:
    """The event of an attempt that failed or was cancelled; None if it says nothing."""
    if settlement.verdict is Verdict.CANCELLED:
        return cancellation(
            settlement.delivery, execution.target, settlement.attempt, execution.foreign
        )
    if settlement.verdict not in (Verdict.RETRY, Verdict.DEAD):
        return None
    return AttemptFailed(
        delivery=settlement.delivery,
        target=execution.target,
        attempt=settlement.attempt,
        reason=str(settlement.reason),
        error=settlement.error or "",
        again_in=settlement.wait,
        schedule=execution.schedule,
        stream=execution.claimed.stream,
        traceback=settlement.traceback,
        namespace=execution.foreign,
    )


def cancellation(delivery: str, target: str, attempt: int, foreign: str | None) -> Event:
    """The event of a delivery that was cancelled while it was claimed."""
    return DeliveryCancelled(delivery=delivery, target=target, attempt=attempt, namespace=foreign)
