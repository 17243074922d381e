"""Retry plans: whether there is another attempt, and how long to wait before it.

A plan is stored as JSON with the delivery, so that every process applies the same plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from duly.errors import InvalidInput, misfit
from duly.records.reason import Reason
from duly.records.retry_plan import (
    BASE,
    CAP,
    CLIENT_ERRORS,
    DEEPEST,
    GONE,
    JITTER,
    LEAST_STATUS,
    MOST_ATTEMPTS,
    MOST_STATUS,
    PLANS,
    SHORTEST,
    YEAR,
    Delays,
    Exponential,
    RetryOn,
    RetryPlan,
)

NEVER_AGAIN = frozenset({Reason.VALIDATION_FAILURE, Reason.SERIALIZATION_ERROR})
"""Reasons retried only if the plan has a rule for them: the same payload would fail again."""


def exponential(
    base: float = BASE,
    cap: float = CAP,
    attempts: int = 10,
    jitter: float = JITTER,
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
    ruling = _ruling(plan, reason)
    if ruling is None or failures >= ruling.attempts:
        return None
    return ruling.delay(failures, spread)


def is_exhausted(plan: RetryPlan, reason: Reason, failures: int) -> bool:
    """Whether a delivery with so many failures was retried for this reason until the end."""
    ruling = _ruling(plan, reason)
    return ruling is not None and failures >= ruling.attempts


def _ruling(plan: RetryPlan, reason: Reason) -> RetryPlan | None:
    """The plan or its rule for this reason; None if the reason is never retried."""
    if reason is Reason.POISON_MESSAGE:
        return None
    ruled = False
    while (rule := plan.rules.get(reason)) is not None:
        plan, ruled = rule, True
    return None if reason in NEVER_AGAIN and not ruled else plan


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
