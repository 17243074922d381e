"""Turns exceptions of handlers into outcomes."""

from __future__ import annotations

import traceback

import msgspec

from duly.domain.deliveries.failures import Fail, Retry
from duly.domain.deliveries.outcomes import Failed
from duly.errors import Contended, StoreUnavailable
from duly.ports import Execution
from duly.records.reason import Reason
from duly.tracebacks import class_name, traceback_text

LOCK_NOT_AVAILABLE = "55P03"
"""PostgreSQL's code for a lock timeout."""


def has_waited_in_vain(error: BaseException, execution: Execution) -> bool:
    """Whether the attempt waited too long for a lock; it is deferred and not counted as failed."""
    if isinstance(error, Contended):
        return True
    return execution.is_in_transaction and getattr(error, "sqlstate", None) == LOCK_NOT_AVAILABLE


def failure_of(error: BaseException) -> Failed:
    """The outcome of an attempt whose handler raised this exception."""
    if isinstance(error, Fail):
        return failed(error.reason, str(error), error, again=error.retry)
    if isinstance(error, Retry):
        return failed(error.reason, str(error), error, after=error.after)
    if isinstance(error, StoreUnavailable):
        return failed(Reason.DEPENDENCY_FAILURE, str(error), error)
    if isinstance(error, ConnectionError):
        return failed(Reason.TRANSPORT_UNAVAILABLE, _described(error), error)
    if isinstance(error, TimeoutError):
        return failed(Reason.TIMEOUT_EXCEEDED, _described(error), error)
    if isinstance(error, msgspec.ValidationError):
        return failed(Reason.VALIDATION_FAILURE, _described(error), error)
    return failed(Reason.HANDLER_EXCEPTION, _described(error), error)


def failed(
    reason: Reason,
    problem: str,
    error: BaseException,
    *,
    after: float | None = None,
    again: bool | None = None,
) -> Failed:
    """A failed attempt, with the error's class and traceback."""
    return Failed(
        reason,
        problem,
        after=after,
        again=again,
        traceback=traceback_text(error),
        exception=class_name(error),
    )


def _described(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    location = "".join(f" (at {frame.filename}:{frame.lineno})" for frame in last)
    return f"{type(error).__name__}: {error}{location}"
