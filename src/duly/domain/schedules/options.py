"""The options of a schedule, checked field by field before anything is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypedDict, TypeVar

import msgspec

from duly.domain import checks
from duly.domain.deliveries import payloads
from duly.domain.deliveries.retry import encode_checked
from duly.domain.schedules.schedule import LARGEST_CAP, Contents, ScheduleTiming
from duly.domain.streams.policy import checked_own_stream
from duly.domain.time.durations import duration
from duly.domain.time.rules import At, Cron, Every, Rule, Yearly
from duly.errors import InvalidInput
from duly.records.delivery import DEFAULT_PRIORITY
from duly.records.retry_plan import RetryPlan
from duly.records.schedule import DEFAULT_CAP, CatchUp, Overlap

LONGEST_JITTER = timedelta(days=7)
MOST_RUNS = 2**31 - 1
Choice = TypeVar("Choice", bound=StrEnum)
Span = float | timedelta | str


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The optional settings of a schedule, as the caller gave them."""

    catch_up: CatchUp | str = CatchUp.LATEST
    window: Span | None = None
    cap: int = DEFAULT_CAP
    overlap: Overlap | str = Overlap.ALLOW
    start: datetime | None = None
    end: datetime | None = None
    max_runs: int | None = None
    jitter: Span = 0.0
    expires_after: Span | None = None
    retry: RetryPlan | None = None
    priority: int = DEFAULT_PRIORITY
    stream: str | None = None
    tags: Iterable[str] = ()


class Keyworded(TypedDict, total=False):
    """The options as keyword arguments, for type checkers."""

    catch_up: CatchUp | str
    window: Span | None
    cap: int
    overlap: Overlap | str
    start: datetime | None
    end: datetime | None
    max_runs: int | None
    jitter: Span
    expires_after: Span | None
    retry: RetryPlan | None
    priority: int
    stream: str | None
    tags: Iterable[str]


def checked_options(given: Mapping[str, Any]) -> Options:
    """The options by name; an unknown name is refused."""
    known = Options.__struct_fields__
    if unknown := sorted(given.keys() - set(known)):
        raise InvalidInput(
            unknown[0], f"a schedule has no such option; there are {', '.join(known)}"
        )
    return Options(**given)


def timing(rule: Rule, options: Options) -> ScheduleTiming:
    """The checked timing of a schedule."""
    if not isinstance(rule, Cron | Every | At | Yearly):
        raise InvalidInput(
            "rule",
            f"{rule!r} is no rule; make one with duly.cron, duly.every, duly.at or duly.yearly",
        )
    starts_at = _moment("start", options.start)
    ends_at = _moment("end", options.end)
    if starts_at is not None and ends_at is not None and ends_at < starts_at:
        raise InvalidInput("end", f"{ends_at.isoformat()} is before start")
    return ScheduleTiming(
        rule=rule,
        catch_up=_choice("catch_up", CatchUp, options.catch_up),
        window=None if options.window is None else _seconds("window", options.window),
        cap=_whole("cap", options.cap, LARGEST_CAP),
        overlap=_choice("overlap", Overlap, options.overlap),
        starts_at=starts_at,
        ends_at=ends_at,
        max_runs=None
        if options.max_runs is None
        else _whole("max_runs", options.max_runs, MOST_RUNS),
        jitter=_jitter(options.jitter),
    )


def contents(
    target: str, payload: Any, options: Options, limit: int, address: str | None = None
) -> Contents:
    """The checked contents of a schedule's deliveries; `address` is the encoded webhook, if any.

    Without a payload, the occasion is delivered.
    """
    if options.stream is not None and options.overlap != Overlap.ALLOW:
        raise InvalidInput("overlap", "a stream runs one at a time by itself; leave overlap out")
    return Contents(
        target=target,
        address=address,
        payload=None if payload is None else payloads.payload_bytes(payload, limit),
        priority=checks.checked_priority(options.priority),
        stream=None if options.stream is None else checked_own_stream(options.stream),
        expires_after=None
        if options.expires_after is None
        else _seconds("expires_after", options.expires_after),
        retry=None if options.retry is None else encode_checked(options.retry),
        tags=checks.checked_tags(options.tags),
    )


def _moment(field: str, value: datetime | None) -> datetime | None:
    return None if value is None else checks.checked_moment(field, value)


def _seconds(field: str, value: Span) -> float:
    if isinstance(value, str):
        value = duration(field, value)
    return checks.checked_wait(field, value)


def _jitter(value: Span) -> float:
    seconds = _seconds("jitter", value)
    if seconds > LONGEST_JITTER.total_seconds():
        raise InvalidInput(
            "jitter", f"{seconds:g} seconds are more than {LONGEST_JITTER.days} days"
        )
    return seconds


def _whole(field: str, value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInput(field, f"{value!r} is not a whole number from 1 to {most}")
    return value


def _choice(field: str, choices: type[Choice], value: object) -> Choice:
    try:
        return choices(str(value))
    except ValueError:
        known = ", ".join(choices)
        raise InvalidInput(field, f"{value!r} is none of {known}") from None
