"""Why an attempt failed: the reasons, and the exceptions with which a handler names one."""

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
    """The reason with that name, or a clear refusal that lists them."""
    try:
        return Reason(value)
    except ValueError:
        names = ", ".join(Reason)
        raise InvalidInput("reason", f"{value!r} is not a reason; take one of {names}") from None


class Fail(Exception):
    """Raised in a handler: this attempt failed for the given reason.

    Whether it is tried again is up to the retry plan's rule for that reason;
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
    """Raised in a handler: try again, after the given time if one is given.

    It spends an attempt, so a plan's limit holds here too.
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
    """Raised in a handler: what came cannot be right, so trying again is no use."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message, reason=Reason.VALIDATION_FAILURE)


class DependencyFailure(Fail):
    """Raised in a handler: something it needs is away."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message, reason=Reason.DEPENDENCY_FAILURE)
