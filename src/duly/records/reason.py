"""Why an attempt failed."""

from __future__ import annotations

from enum import StrEnum

from duly.errors import InvalidInput


class Reason(StrEnum):
    """Why an attempt failed."""

    TRANSPORT_UNAVAILABLE = "transport_unavailable"
    HANDLER_EXCEPTION = "handler_exception"
    VALIDATION_FAILURE = "validation_failure"
    TIMEOUT_EXCEEDED = "timeout_exceeded"
    SERIALIZATION_ERROR = "serialization_error"
    DEPENDENCY_FAILURE = "dependency_failure"
    POISON_MESSAGE = "poison_message"
    UNKNOWN = "unknown"


def reason_from(value: Reason | str) -> Reason:
    """The reason with this name; InvalidInput lists the valid ones."""
    try:
        return Reason(value)
    except ValueError:
        names = ", ".join(Reason)
        raise InvalidInput("reason", f"{value!r} is not a reason; take one of {names}") from None
