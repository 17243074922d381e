"""Dead letters: the refusal to change other deliveries, and which deliveries may die soon."""

from __future__ import annotations

import msgspec

from duly.domain.deliveries.retry import attempts_allowed, decode
from duly.errors import Conflict
from duly.records.delivery import Delivery
from duly.records.retry_plan import RetryPlan
from duly.records.state import State

LOOKED_AT = 5000
"""The number of newest dead letters that a page examines at most."""
INSTEAD = {
    State.PENDING: "`duly deliveries retry {id}` makes one that waits due now, "
    "`duly deliveries cancel {id}` takes it out",
    State.PROCESSING: "a worker is at it; wait until it has ended, and look again",
    State.COMPLETED: "it is done; what is to happen again has to be delivered anew",
    State.CANCELLED: "it was given up for good; what is to happen after all has to be "
    "delivered anew",
}


def not_dead(delivery: Delivery, verb: str) -> Conflict:
    """The Conflict for a delivery that is not dead, with its state and what to do instead."""
    instead = INSTEAD.get(delivery.state, "look again")
    return Conflict(
        f"delivery {delivery.id} is {delivery.state}; only a dead letter can be {verb}; "
        + instead.format(id=delivery.id)
    )


class Suspect(msgspec.Struct, frozen=True):
    """An unfinished delivery that failed or whose worker died; `retry` is its own plan, if any."""

    id: str
    target: str
    attempt: int
    crashes: int
    retry: str | None


def why_suspected(suspect: Suspect, plan: RetryPlan) -> str | None:
    """Why an unfinished delivery may soon be dead; None when there is no sign of it."""
    if suspect.crashes:
        return f"{suspect.crashes} workers died while they held it"
    allowed = attempts_allowed(plan if suspect.retry is None else decode(suspect.retry))
    if suspect.attempt and suspect.attempt + 1 >= allowed:
        return f"its next attempt is the last of {allowed}"
    return None
