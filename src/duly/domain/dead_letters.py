"""What can be done with a dead letter, what with one that is none, and who is about to be one."""

from __future__ import annotations

from duly.domain.delivery import Delivery
from duly.domain.errors import Conflict
from duly.domain.retry import RetryPlan, attempts_allowed
from duly.domain.states import State

INSTEAD = {
    State.PENDING: "`duly deliveries retry {id}` makes one that waits due now, "
    "`duly deliveries cancel {id}` takes it out",
    State.PROCESSING: "a worker is at it; wait until it has ended, and look again",
    State.COMPLETED: "it is done; what is to happen again has to be delivered anew",
    State.CANCELLED: "it was given up for good; what is to happen after all has to be "
    "delivered anew",
}


def not_dead(delivery: Delivery, verb: str) -> Conflict:
    """The refusal to move what is no dead letter: how it stands, and what can be done instead."""
    instead = INSTEAD.get(delivery.state, "look again")
    return Conflict(
        f"delivery {delivery.id} is {delivery.state}; only a dead letter can be {verb}; "
        + instead.format(id=delivery.id)
    )


def why_suspected(delivery: Delivery, plan: RetryPlan) -> str | None:
    """Why one that is unfinished may soon be dead; None when nothing speaks for it."""
    if delivery.crashes:
        return f"{delivery.crashes} workers died while they held it"
    allowed = attempts_allowed(plan)
    if delivery.attempt and delivery.attempt + 1 >= allowed:
        return f"its next attempt is the last of {allowed}"
    return None
