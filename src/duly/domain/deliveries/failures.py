"""Failure reasons, and the exceptions with which a handler reports one."""

from __future__ import annotations

from datetime import timedelta

from duly.errors import InvalidInput
from duly.records.reason import Reason, reason_from


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
