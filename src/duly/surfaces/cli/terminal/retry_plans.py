"""A retry plan in words."""

from __future__ import annotations

from typing import assert_never

from duly.domain.deliveries.retry import attempts_allowed
from duly.records.retry_plan import Delays, Exponential, NoRetry, RetryPlan
from duly.surfaces.cli.terminal.times import spelled


def plan_in_words(plan: RetryPlan) -> str:
    """The delays before retries, and the number of attempts."""
    special = f"; other rules for {', '.join(sorted(plan.rules))}" if plan.rules else ""
    return f"{_waits(plan)}, at most {attempts_allowed(plan)} attempts{special}{_retried(plan)}"


def _retried(plan: RetryPlan) -> str:
    if not plan.retry_on:
        return ""
    found = plan.retry_on if isinstance(plan.retry_on, str) else ", ".join(map(str, plan.retry_on))
    return f"; after {found} too"


def _waits(plan: RetryPlan) -> str:
    match plan:
        case Exponential():
            return f"after {spelled(plan.base)}, doubling up to {spelled(plan.cap)}"
        case Delays():
            return ", ".join(map(_wait, plan.seconds)) or "never again"
        case NoRetry():
            return "never again"
        case _:
            assert_never(plan)


def _wait(seconds: float) -> str:
    return f"after {spelled(seconds)}" if seconds else "at once"
