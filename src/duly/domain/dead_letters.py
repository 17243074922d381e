"""Dead letters: checks of filters and notes, positions in the list, and what may die soon."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from duly.domain import checks
from duly.domain.deliveries.retry import attempts_allowed, decode
from duly.domain.endpoints.endpoint import wanted_target
from duly.domain.streams.policy import checked_stream
from duly.errors import Conflict, InvalidInput, quoted
from duly.records.dead_letter import DeadLetterCriteria, DeadLetterFilter
from duly.records.delivery import Delivery
from duly.records.recovery import Disposition, WhichLetters
from duly.records.retry_plan import RetryPlan
from duly.records.state import State

ALL = DeadLetterFilter()
LEAST = "00000000-0000-0000-0000-000000000000"
LONGEST_NOTE = 1000
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
    refuse_given_up(delivery, verb)
    instead = INSTEAD.get(delivery.state, "look again")
    return Conflict(
        f"delivery {delivery.id} is {delivery.state}; only a dead letter can be {verb}; "
        + instead.format(id=delivery.id)
    )


def refuse_given_up(delivery: Delivery, verb: str) -> None:
    """Raise Conflict if the delivery was given up."""
    if delivery.disposition == Disposition.GIVEN_UP:
        raise Conflict(
            f"delivery {delivery.id} was given up for good, so it cannot be {verb}; what is to "
            "happen after all has to be delivered anew"
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


def place(delivery: Delivery) -> str:
    """The position of a dead letter in the list, for the next page."""
    assert delivery.dead_at is not None
    return f"{delivery.dead_at.isoformat()}/{delivery.id}"


def placed(text: str) -> tuple[datetime, str]:
    """When the dead letter at a position died, and its id."""
    at, _, id = text.partition("/")
    try:
        moment = checks.checked_moment("before", datetime.fromisoformat(at))
        return moment, checks.checked_id(id)
    except (ValueError, InvalidInput):
        raise InvalidInput(
            "before", f"{text!r} is no place in the list; take it from a page"
        ) from None


def checked_note(note: object) -> str:
    """A note that says why something is discarded."""
    return checks.checked_text("note", note, LONGEST_NOTE)


def checked(filter: DeadLetterCriteria) -> DeadLetterFilter:
    """The filter with each of its fields checked."""
    if not isinstance(filter, DeadLetterCriteria):
        raise InvalidInput("filter", f"{filter!r} is not a duly.DeadLetterFilter")
    given = {
        name: check(value)
        for name, check in FIELDS.items()
        if (value := getattr(filter, name)) is not None
    }
    if not isinstance(filter, DeadLetterFilter):
        return DeadLetterFilter(**given)
    if isinstance(filter.ids, str):
        raise InvalidInput("ids", f"give a tuple, as in ({filter.ids!r},)")
    ids = tuple(dict.fromkeys(map(checks.checked_id, filter.ids)))
    return DeadLetterFilter(**given, ids=ids)


def narrowed(filter: DeadLetterFilter, disposition: WhichLetters) -> DeadLetterFilter:
    """The filter of a bulk operation: of this disposition unless it names one, or ids."""
    wanted = checked(filter)
    if wanted.disposition is not None or wanted.ids:
        return wanted
    return msgspec.structs.replace(wanted, disposition=disposition)


def _text(field: str, limit: int = checks.KEY_LIMIT) -> Callable[[object], str]:
    return lambda value: checks.checked_text(field, value, limit)


def _disposition(value: object) -> WhichLetters:
    try:
        return WhichLetters(value)  # type: ignore[arg-type]
    except ValueError:
        names = ", ".join(WhichLetters)
        raise InvalidInput("disposition", f"{quoted(value)} is none of {names}") from None


FIELDS: dict[str, Callable[[Any], Any]] = {
    "reason": _text("reason"),
    "fingerprint": _text("fingerprint"),
    "target": wanted_target,
    "stream": checked_stream,
    "schedule": _text("schedule"),
    "disposition": _disposition,
    "tag": _text("tag"),
    "text": _text("text", 1000),
    "since": lambda value: checks.checked_moment("since", value),
    "until": lambda value: checks.checked_moment("until", value),
}
