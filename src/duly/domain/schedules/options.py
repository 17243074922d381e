"""The options of a schedule, checked field by field before anything is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

import msgspec

from duly.domain import checks
from duly.domain.deliveries import payloads
from duly.domain.deliveries.retry import decode, encode, encode_checked
from duly.domain.schedules.schedule import LARGEST_CAP, Contents, ScheduleTiming, StoredSchedule
from duly.domain.streams.policy import checked_own_stream
from duly.domain.time.durations import seconds_of
from duly.domain.time.occurrences import AnyRule
from duly.domain.time.rules import Rule
from duly.errors import InvalidInput
from duly.records.retry_plan import RetryPlan
from duly.records.schedule import CatchUp, Overlap, ScheduleOptions, Span

LONGEST_JITTER = timedelta(days=7)
MOST_RUNS = 2**31 - 1
Choice = TypeVar("Choice", bound=StrEnum)


def checked_options(given: Mapping[str, Any]) -> ScheduleOptions:
    """The options, each checked by its name; an unknown name is refused."""
    if unknown := sorted(given.keys() - CHECKS.keys()):
        raise InvalidInput(
            unknown[0], f"a schedule has no such option; there are {', '.join(CHECKS)}"
        )
    options = ScheduleOptions(**{name: _checked(name, value) for name, value in given.items()})
    if options.start is not None and options.end is not None and options.end < options.start:
        raise InvalidInput("end", f"{options.end.isoformat()} is before start")
    if options.stream is not None and options.overlap != Overlap.ALLOW:
        raise InvalidInput("overlap", "a stream runs one at a time by itself; leave overlap out")
    return options


def timing(rule: Rule, options: ScheduleOptions) -> ScheduleTiming:
    """The timing of a schedule with checked options."""
    if not isinstance(rule, AnyRule):
        raise InvalidInput("rule", f"{rule!r} is no rule; make one with duly.cron or duly.every")
    return ScheduleTiming(rule=rule, **_stored(options, ScheduleTiming))


def contents(
    target: str, payload: Any, options: ScheduleOptions, limit: int, address: str | None = None
) -> Contents:
    """The contents of a schedule with checked options; `address` is the encoded webhook, if any.

    Without a payload, the occasion is delivered.
    """
    stored = _stored(options, Contents)
    if options.retry is not None:
        stored["retry"] = encode(options.retry)
    data = None if payload is None else payloads.payload_bytes(payload, limit)
    return Contents(target=target, address=address, payload=data, **stored)


def options_of(schedule: StoredSchedule) -> ScheduleOptions:
    """The options of a stored schedule."""
    return options_in(
        msgspec.structs.asdict(schedule.timing)
        | msgspec.structs.asdict(schedule.contents)
        | {"retry": None if schedule.contents.retry is None else decode(schedule.contents.retry)}
    )


def options_in(stored: Mapping[str, Any]) -> ScheduleOptions:
    """The options among stored fields."""
    return ScheduleOptions(**{name: stored[STORED_AS.get(name, name)] for name in CHECKS})


def _stored(options: ScheduleOptions, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The options that are stored in this part of a schedule, by their names there."""
    named = {STORED_AS.get(name, name): getattr(options, name) for name in CHECKS}
    return {name: value for name, value in named.items() if name in kind.__struct_fields__}


def _checked(name: str, value: Any) -> Any:
    return None if value is None and name in NULLABLE else CHECKS[name](value)


def _jitter(value: Span) -> float:
    seconds = seconds_of("jitter", value)
    if seconds > LONGEST_JITTER.total_seconds():
        raise InvalidInput(
            "jitter", f"{seconds:g} seconds are more than {LONGEST_JITTER.days} days"
        )
    return seconds


def _whole(field: str, most: int, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInput(field, f"{value!r} is not a whole number from 1 to {most}")
    return value


def _choice(field: str, choices: type[Choice], value: object) -> Choice:
    try:
        return choices(str(value))
    except ValueError:
        known = ", ".join(choices)
        raise InvalidInput(field, f"{value!r} is none of {known}") from None


def _plan(plan: RetryPlan) -> RetryPlan:
    encode_checked(plan)
    return plan


CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "catch_up": partial(_choice, "catch_up", CatchUp),
    "window": partial(seconds_of, "window"),
    "cap": partial(_whole, "cap", LARGEST_CAP),
    "overlap": partial(_choice, "overlap", Overlap),
    "start": partial(checks.checked_moment, "start"),
    "end": partial(checks.checked_moment, "end"),
    "max_runs": partial(_whole, "max_runs", MOST_RUNS),
    "jitter": _jitter,
    "expires_after": partial(seconds_of, "expires_after"),
    "retry": _plan,
    "priority": checks.checked_priority,
    "stream": checked_own_stream,
    "tags": checks.checked_tags,
}
NULLABLE = {each.name for each in msgspec.structs.fields(ScheduleOptions) if each.default is None}
STORED_AS = {"start": "starts_at", "end": "ends_at"}
"""Options that have another name in the store and in exports."""
