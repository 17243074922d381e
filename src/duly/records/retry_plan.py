"""Retry plans: how often and after what waits a failed attempt is repeated."""

from __future__ import annotations

from typing import Annotated, Literal, Union

import msgspec
from msgspec import Meta

from duly.records.reason import Reason, reason_from

SHORTEST, YEAR = 0.001, 366 * 86400.0


MOST_ATTEMPTS = 1000


DEEPEST = 3
"""How deep rules may be nested; a nested rule applies only for the same reason."""


Wait = Annotated[float, Meta(ge=0, le=YEAR)]


CLIENT_ERRORS: Literal["4xx"] = "4xx"


LEAST_STATUS, MOST_STATUS, GONE = 300, 599, 410


RetryOn = (
    Literal["4xx"]
    | Annotated[
        tuple[Annotated[int, Meta(ge=LEAST_STATUS, le=MOST_STATUS)], ...], Meta(max_length=300)
    ]
)


class _Plan(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Fields of all plans: rules for single reasons, and the statuses to retry."""

    rules: Annotated[
        dict[Reason, RetryPlan], Meta(description="other plans, by the reason of the failure")
    ] = {}
    retry_on: Annotated[
        RetryOn,
        Meta(
            description="statuses of a webhook's answer that are tried again although they would "
            "end the delivery: 4xx, which is all of them but 410, or a list as in [404, 409]"
        ),
    ] = ()

    def retries_on(self, status: int) -> bool:
        """Whether to retry after a status that would otherwise end the delivery."""
        if self.retry_on == CLIENT_ERRORS:
            return 400 <= status < 500 and status != GONE
        return status in self.retry_on

    def on(self, reason: Reason | str, plan: RetryPlan) -> RetryPlan:
        """A copy of the plan with a rule for this reason."""
        rules = {**self.rules, reason_from(reason): plan}
        return msgspec.structs.replace(self, rules=rules)  # type: ignore[return-value]


BASE, CAP, JITTER = 30.0, 3600.0, 0.2
"""Defaults; a number that is equal but not the same object would not be left out of the JSON."""


class Exponential(_Plan, frozen=True, tag="exponential", kw_only=True):
    """Wait `base * 2^n` seconds, at most `cap`, plus a random share of up to `jitter`."""

    base: Annotated[
        float, Meta(ge=SHORTEST, le=YEAR, description="seconds before the second attempt")
    ] = BASE
    cap: Annotated[float, Meta(ge=SHORTEST, le=YEAR, description="the longest wait in seconds")] = (
        CAP
    )
    attempts: Annotated[
        int, Meta(ge=1, le=MOST_ATTEMPTS, description="how many in all, the first included")
    ] = 10
    jitter: Annotated[
        float, Meta(ge=0, le=10, description="up to this share of a wait is added to it")
    ] = JITTER

    def delay(self, failures: int, spread: float) -> float:
        """Seconds to wait after this many failures; `spread` is a random number from 0 to 1."""
        doubled = self.base * 2.0 ** min(failures - 1, 60)
        return float(min(doubled, self.cap) * (1.0 + self.jitter * spread))


class Delays(_Plan, frozen=True, tag="delays", kw_only=True):
    """Wait the listed seconds before each attempt after the first."""

    seconds: Annotated[tuple[Wait, ...], Meta(max_length=MOST_ATTEMPTS - 1)]

    @property
    def attempts(self) -> int:
        """The first attempt and one for each listed delay."""
        return len(self.seconds) + 1

    def delay(self, failures: int, spread: float) -> float:  # noqa: ARG002 - one shape for all plans
        """Seconds to wait after this many failures."""
        return self.seconds[failures - 1]


class NoRetry(_Plan, frozen=True, tag="none", kw_only=True):
    """One attempt only."""

    @property
    def attempts(self) -> int:
        """Always one."""
        return 1

    def delay(self, failures: int, spread: float) -> float:
        """Never called: there is no second attempt."""
        raise AssertionError(f"no retry has no delay ({failures}, {spread})")


RetryPlan = Union[Exponential, Delays, NoRetry]  # noqa: UP007 - msgspec resolves it by name


PLANS = (Exponential, Delays, NoRetry)


no_retry = NoRetry()
