"""Retry plans: whether there is another attempt, and how long to wait before it.

A plan is stored as JSON with the delivery, so that every process applies the same plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import Meta

from duly.domain.deliveries.failures import Reason, reason_from
from duly.errors import InvalidInput, misfit

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


class Exponential(_Plan, frozen=True, tag="exponential", kw_only=True):
    """Wait `base * 2^n` seconds, at most `cap`, plus a random share of up to `jitter`."""

    base: Annotated[
        float, Meta(ge=SHORTEST, le=YEAR, description="seconds before the second attempt")
    ] = 30.0
    cap: Annotated[float, Meta(ge=SHORTEST, le=YEAR, description="the longest wait in seconds")] = (
        3600.0
    )
    attempts: Annotated[
        int, Meta(ge=1, le=MOST_ATTEMPTS, description="how many in all, the first included")
    ] = 10
    jitter: Annotated[
        float, Meta(ge=0, le=10, description="up to this share of a wait is added to it")
    ] = 0.2

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

NEVER_AGAIN = frozenset({Reason.VALIDATION_FAILURE, Reason.SERIALIZATION_ERROR})
"""Reasons retried only if the plan has a rule for them: the same payload would fail again."""


def exponential(
    base: float = 30.0,
    cap: float = 3600.0,
    attempts: int = 10,
    jitter: float = 0.2,
    *,
    retry_on: str | Iterable[int] = (),
) -> Exponential:
    """A plan that doubles its wait after each attempt; the default plan.

    `retry_on` lists webhook statuses to retry that would otherwise end the delivery: "4xx", or a
    list as in [404, 409].
    """
    _check("base", base, SHORTEST, YEAR)
    _check("cap", cap, base, YEAR)
    _check("attempts", attempts, 1, MOST_ATTEMPTS)
    _check("jitter", jitter, 0, 10)
    return Exponential(
        base=float(base),
        cap=float(cap),
        attempts=attempts,
        jitter=float(jitter),
        retry_on=checked_retry_on(retry_on),
    )


def delays(*seconds: float, retry_on: str | Iterable[int] = ()) -> Delays:
    """A plan with explicit waits, in seconds, before each attempt after the first.

    `retry_on` is the same as in `exponential`.
    """
    if len(seconds) >= MOST_ATTEMPTS:
        raise InvalidInput("delays", f"give fewer than {MOST_ATTEMPTS} delays")
    for each in seconds:
        _check("delays", each, 0, YEAR)
    return Delays(
        seconds=tuple(float(each) for each in seconds), retry_on=checked_retry_on(retry_on)
    )


def checked_retry_on(given: object) -> RetryOn:
    """`4xx`, or the given statuses, sorted and without duplicates."""
    if given == CLIENT_ERRORS:
        return CLIENT_ERRORS
    is_several = isinstance(given, Iterable) and not isinstance(given, str | bytes)
    statuses: list[Any] = list(given) if is_several else [given]  # type: ignore[call-overload]
    for each in statuses:
        is_number = isinstance(each, int) and not isinstance(each, bool)
        if not is_number or not LEAST_STATUS <= each <= MOST_STATUS:
            raise InvalidInput(
                "retry_on",
                f"{each!r} is no status from {LEAST_STATUS} to {MOST_STATUS}; "
                'give "4xx", or a list of them as in [404, 409]',
            )
    _refuse_gone("retry_on", statuses)
    return tuple(sorted(set(statuses)))


def _refuse_gone(field: str, retry_on: Collection[object]) -> None:
    if retry_on != CLIENT_ERRORS and GONE in retry_on:
        raise InvalidInput(field, "410 says that the receiver is gone, and is never tried again")


def _check(field: str, value: object, least: float, most: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Written so that NaN is refused: each comparison with it is false.
    if not is_number or not least <= value <= most:  # type: ignore[operator]
        raise InvalidInput(field, f"{value!r} is not between {least:g} and {most:g}")


DEFAULT = exponential()
WEBHOOK = delays(30, 120, 600)


def next_delay(plan: RetryPlan, reason: Reason, failures: int, spread: float) -> float | None:
    """Seconds until the next attempt, or None if there is none.

    `failures` includes the attempt just made.
    """
    if reason is Reason.POISON_MESSAGE:
        return None
    ruled = False
    while (rule := plan.rules.get(reason)) is not None:
        plan, ruled = rule, True
    if failures >= plan.attempts or (reason in NEVER_AGAIN and not ruled):
        return None
    return plan.delay(failures, spread)


def attempts_allowed(plan: RetryPlan) -> int:
    """The maximum number of attempts of the plan and all its rules."""
    return max([plan.attempts, *(attempts_allowed(rule) for rule in plan.rules.values())])


_decoder: msgspec.json.Decoder[RetryPlan] = msgspec.json.Decoder(RetryPlan)


def encode(plan: RetryPlan) -> str:
    """The plan as JSON for the store."""
    return msgspec.json.encode(plan).decode()


def decode(stored: str) -> RetryPlan:
    """The plan from stored JSON."""
    plan: RetryPlan = _decoder.decode(stored)
    return plan


def encode_checked(plan: object) -> str:
    """The plan as JSON for the store; InvalidInput if it is no valid plan."""
    if not isinstance(plan, PLANS):
        raise InvalidInput("retry", f"{plan!r} is no retry plan; try duly.exponential()")
    stored = encode(plan)
    # The constructors check nothing, and a stored plan that cannot be decoded would be ignored.
    decode_checked(stored)
    return stored


def decode_checked(text: str | bytes) -> RetryPlan:
    """A plan from a caller's JSON; InvalidInput says what is wrong with it."""
    try:
        plan: RetryPlan = _decoder.decode(text)
    except msgspec.ValidationError as error:
        raise misfit(error, "retry") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput("retry", f"it is no JSON: {error}") from None
    except RecursionError:
        raise InvalidInput("retry", "it is nested too deep") from None
    _check_plan(plan, "retry", DEEPEST)
    return plan


def _check_plan(plan: RetryPlan, place: str, deepest: int) -> None:
    """The checks that the types cannot express."""
    if isinstance(plan, Exponential):
        _check(f"{place}.cap", plan.cap, plan.base, YEAR)
    _refuse_gone(f"{place}.retry_on", plan.retry_on)
    if plan.retry_on and deepest < DEEPEST:
        raise InvalidInput(
            f"{place}.retry_on", "give it to the plan itself, not to one of its rules"
        )
    if plan.rules and not deepest:
        raise InvalidInput(place, f"its rules are nested deeper than {DEEPEST}")
    for reason, rule in plan.rules.items():
        _check_plan(rule, f"{place}.rules.{reason}", deepest - 1)
