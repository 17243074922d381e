"""Retry plans as text, for the command line and settings."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from duly.domain.deliveries.retry import (
    WEBHOOK,
    checked_retry_on,
    decode_checked,
    delays,
    exponential,
)
from duly.domain.time.durations import duration
from duly.errors import InvalidInput, quoted
from duly.records.retry_plan import CLIENT_ERRORS, RetryPlan, no_retry

NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")
FORMS = (
    "write none, webhook, delays:30,2m,10m or exponential:base=30s,cap=1h,attempts=10,jitter=0.2, "
    "with ;REASON=PLAN after it for single reasons, and ;retry_on=4xx or ;retry_on=404,409 for "
    "answers that would end a webhook"
)
RETRY_ON = "retry_on"


def plan_from_text(field: str, text: str) -> RetryPlan:
    """A plan such as `delays:30,2m`, `exponential:attempts=5;timeout_exceeded=none`, or its JSON.

    Waits are in seconds, or durations as in 2m. `;retry_on=4xx` names statuses to retry.
    """
    if text.startswith("{"):
        return decode_checked(text)
    first, *rules = text.split(";")
    try:
        plan = _plan(first)
        for each in rules:
            name, _, rule = (part.strip() for part in each.partition("="))
            plan = _with_retry_on(plan, rule) if name == RETRY_ON else plan.on(name, _plan(rule))
    except InvalidInput as error:
        which = f"{error.field}: " if error.field in (*FIELDS, RETRY_ON) else ""
        raise InvalidInput(field, f"{which}{error.problem}; {FORMS}") from None
    return plan


def _with_retry_on(plan: RetryPlan, text: str) -> RetryPlan:
    given = text if text == CLIENT_ERRORS else [_whole(each.strip()) for each in text.split(",")]
    return msgspec.structs.replace(plan, retry_on=checked_retry_on(given))


def _plan(text: str) -> RetryPlan:
    name, _, arguments = text.strip().partition(":")
    if (make := PLANS.get(name)) is None or (arguments and name in ALONE):
        raise InvalidInput("retry", f"{quoted(text)} is no retry plan")
    return make(arguments)


def _delays(arguments: str) -> RetryPlan:
    return delays(*(_seconds(each) for each in arguments.split(",")))


def _exponential(arguments: str) -> RetryPlan:
    given: dict[str, float] = {}
    for each in arguments.split(",") if arguments else ():
        name, _, value = (part.strip() for part in each.partition("="))
        if name not in FIELDS or name in given:
            known = ", ".join(FIELDS)
            raise InvalidInput("retry", f"{quoted(each)} is none of {known}, or is there twice")
        given[name] = FIELDS[name](value)
    return exponential(**given)  # type: ignore[arg-type]


def _seconds(text: str) -> float:
    text = text.strip()
    return _number(text) if NUMBER.fullmatch(text) else duration("retry", text).total_seconds()


def _number(text: str) -> float:
    if not NUMBER.fullmatch(text):
        raise InvalidInput("retry", f"{quoted(text)} is no number")
    return float(text)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise InvalidInput("retry", f"{quoted(text)} is no whole number")
    return int(text)


FIELDS: dict[str, Callable[[str], float]] = {
    "base": _seconds,
    "cap": _seconds,
    "attempts": _whole,
    "jitter": _number,
}
ALONE = ("none", "webhook")
PLANS: dict[str, Callable[[str], RetryPlan]] = {
    "none": lambda _: no_retry,
    "webhook": lambda _: WEBHOOK,
    "delays": _delays,
    "exponential": _exponential,
}
