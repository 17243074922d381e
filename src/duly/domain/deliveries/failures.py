"""Failure reasons, and the exceptions with which a handler reports one."""

from __future__ import annotations

from datetime import timedelta
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


class Fail(Exception):
    """Raised in a handler: this attempt failed for the given reason.

    The retry plan's rule for that reason decides whether it is tried again;
    `retry=False` ends the delivery at once.
    """

    def __init__(
        self,
        message: str = "",
        *,
        reason: Reason | str = Reason.HANDLER_EXCEPTION,
        retry: bool | None = None,
    ) -> None:
        self.reason = reason_from(reason)
        self.retry = retry
        super().__init__(message or f"the handler reported {self.reason}")


class Retry(Exception):
    """Raised in a handler: try again, after `after` if given, else after the plan's delay.

    It spends an attempt, so the plan's limit on attempts applies.
    """

    def __init__(
        self,
        message: str = "",
        *,
        after: float | timedelta | None = None,
        reason: Reason | str = Reason.HANDLER_EXCEPTION,
    ) -> None:
        self.reason = reason_from(reason)
        self.after = after.total_seconds() if isinstance(after, timedelta) else after
        if self.after is not None and not 0 <= self.after <= 366 * 86400:
            raise InvalidInput("after", "give a time from 0 seconds to a year")
        super().__init__(message or "the handler asked for another attempt")


class ValidationFailure(Fail):
    """Raised in a handler: the payload is invalid, so a retry would not help."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message, reason=Reason.VALIDATION_FAILURE)


class DependencyFailure(Fail):
    """Raised in a handler: a service that it needs is unavailable."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message, reason=Reason.DEPENDENCY_FAILURE)
