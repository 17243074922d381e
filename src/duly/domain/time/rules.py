"""The rules of schedules: their constructors, and their encoding for the store.

`cron`, `every`, `at`, `yearly`, `any_of` and `except_` check their input and name the wrong field.
A stored rule that a newer version wrote is refused as unreadable.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET, UnsetType

from duly.domain.checks import LONGEST_WAIT, checked_moment
from duly.domain.moments import EPOCH
from duly.domain.time import sentences
from duly.domain.time.business_days import BusinessDays, Except, Move, decode_days
from duly.domain.time.calendars import days_of
from duly.domain.time.combinations import AnyOf
from duly.domain.time.cron import normal
from duly.domain.time.durations import duration
from duly.domain.time.occurrences import Occurrence
from duly.domain.time.recurrences import MILLISECOND, Cron, DstGap, Every
from duly.domain.time.walltimes import At, Feb29, TimeOfDay, Yearly
from duly.domain.time.zones import checked_zone
from duly.errors import InvalidInput, UnreadableRule, quoted
from duly.records.calendar import Calendar

__all__ = [
    "AnyOf", "At", "Cron", "Every", "Occurrence", "Rule", "Yearly",
    "any_of", "at", "calendar_of", "cron", "decode_rule", "encode_rule", "every", "except_",
    "parts_of", "with_days", "yearly",
]  # fmt: skip

Rule = Cron | Every | At | Yearly | AnyOf
Part = Cron | Every | At | Yearly
Changed = TypeVar("Changed", bound=Cron | Every | At | Yearly | AnyOf)

CLOCK_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?")


def cron(expression: str, tz: str = "UTC", dst_gap: DstGap = "run") -> Cron | Every | AnyOf:
    """The times that a cron expression matches in a time zone.

    It can be said in words: `every weekday at 9am`, `every 15 minutes`, `on the last day of the
    month at 18:00`. Aliases such as `@daily` are allowed, and `@every 90s` for an interval.

    A time of day that the clock skips runs just after the gap, or not at all with
    `dst_gap="skip"`.
    """
    if isinstance(expression, str) and expression.lower().split()[:1] == ["@every"]:
        checked_zone(tz)
        return every("".join(expression.lower().split()[1:]))
    if isinstance(expression, str) and sentences.is_sentence(expression):
        return _said(expression, tz, dst_gap)
    return Cron(normal(expression), tz, dst_gap)


def _said(sentence: str, tz: str, dst_gap: DstGap) -> Cron | Every | AnyOf:
    Cron("* * * * *", tz, dst_gap)  # refuses a wrong zone or option, also beside an interval
    found = [
        every(each) if isinstance(each, timedelta) else Cron(normal(each), tz, dst_gap)
        for each in sentences.read(sentence.removesuffix(f", {tz}"))
    ]
    return found[0] if len(found) == 1 else any_of(*found)


def every(interval: timedelta | float | str, anchor: datetime | str | None = None) -> Every:
    """The moments `anchor + k * interval`: elapsed time, in seconds or as `90s`, `1h30m`, `2d`.

    The default anchor is the start of 1970 in UTC. An anchor is rounded down to the millisecond.
    """
    if anchor is None:
        return Every(_interval(interval))
    moment = checked_moment("anchor", _moment("anchor", anchor))
    return Every(_interval(interval), moment - (moment - EPOCH) % MILLISECOND)


def at(moment: datetime | str, tz: str | None = None) -> At:
    """One moment: a fixed instant if it has an offset, else a wall time in `tz`."""
    given = _moment("moment", moment)
    if given.tzinfo is not None:
        return At(checked_moment("moment", given).astimezone(UTC), tz)
    return At(given.replace(fold=0), tz)


def yearly(
    month: int, day: int, time: TimeOfDay | str = "09:00", tz: str = "UTC", feb29: Feb29 = "feb28"
) -> Yearly:
    """A day of every year, at a time of day in a time zone.

    In other years, 29 February moves to 28 February (`feb28`) or 1 March (`mar1`), or is skipped
    (`skip`).
    """
    return Yearly(month, day, _time(time), tz, feb29)


def any_of(*rules: Cron | Every | AnyOf) -> AnyOf:
    """The moments of several rules of `cron` and `every`; a common one comes once."""
    return AnyOf(
        tuple(
            part for each in rules for part in (each.rules if isinstance(each, AnyOf) else (each,))
        )
    )


def except_(
    rule: Changed, calendar: str | Calendar, move: Move = "skip", *, tz: str | None = None
) -> Changed:
    """The moments of a rule on the business days of a calendar, which is given by its name.

    Moments on closed days are left out, or moved to the same time of the `next` or `previous`
    business day; if two are then the same, one comes. `tz` is the zone of the days of an interval.
    `preview` and `next_after` need the days: give the calendar as `app.calendars.get` returns it.
    """
    if not isinstance(rule, Rule):
        raise InvalidInput("rule", f"{quoted(rule)} is no rule; make one with duly.cron")
    if calendar_of(rule) is not None:
        raise InvalidInput("rule", "it has a calendar already; give it once")
    name = calendar.name if isinstance(calendar, Calendar) else calendar
    days = days_of(calendar) if isinstance(calendar, Calendar) else UNSET
    if isinstance(rule, AnyOf) and tz is None:
        tz = rule.zone_name
    parts = [_excepted(each, Except(name, move, days=days), tz) for each in parts_of(rule)]
    return _combined(rule, parts)


def _excepted(part: Part, given: Except, tz: str | None) -> Part:
    if isinstance(part, Every):
        given = msgspec.structs.replace(given, tz=tz)
    elif tz is not None and tz != part.zone_name:
        raise InvalidInput("tz", f"the rule has the zone {part.zone_name}; leave out tz")
    return msgspec.structs.replace(part, except_=given)


def parts_of(rule: Rule) -> tuple[Part, ...]:
    """The rules of `any_of`, or the rule itself."""
    return rule.rules if isinstance(rule, AnyOf) else (rule,)


def calendar_of(rule: Rule) -> str | None:
    """The name of the calendar of a rule; `any_of` has at most one."""
    excepts = (each.except_ for each in parts_of(rule))
    return next((each.calendar for each in excepts if each is not UNSET), None)


def with_days(rule: Changed, days: BusinessDays | UnsetType) -> Changed:
    """The rule with the days of its calendar, or without them."""
    if calendar_of(rule) is None:
        return rule
    return _combined(rule, [_with_days(each, days) for each in parts_of(rule)])


def _with_days(part: Part, days: BusinessDays | UnsetType) -> Part:
    if part.except_ is UNSET:
        return part
    known = msgspec.structs.replace(part.except_, days=days)
    return msgspec.structs.replace(part, except_=known)


def _combined(rule: Changed, parts: list[Any]) -> Changed:
    return cast(Changed, AnyOf(tuple(parts)) if isinstance(rule, AnyOf) else parts[0])


def _interval(value: timedelta | float | str) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        return duration("interval", value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(
            "interval", f"{quoted(value)} is no timedelta, number of seconds or text"
        )
    # Written so that NaN is refused: each comparison with it is false.
    if not abs(value) <= LONGEST_WAIT.total_seconds():
        raise InvalidInput("interval", f"{quoted(value)} is not from 1 second to 100 years")
    return timedelta(seconds=value)


def _moment(field: str, value: datetime | str) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        if ":" not in value:
            raise ValueError("a date alone is no moment")
        return datetime.fromisoformat(value)
    except (ValueError, TypeError):
        raise InvalidInput(
            field, f"{quoted(value)} is no moment; write 2026-11-15T09:00 or 2026-11-15T09:00+01:00"
        ) from None


def _time(value: time | str) -> time:
    if isinstance(value, time):
        return value
    if not isinstance(value, str) or not CLOCK_TIME.fullmatch(value):
        raise InvalidInput("time", f"{quoted(value)} is no time of day; write 09:00 or 09:00:30")
    return time.fromisoformat(value)


_decoder: msgspec.json.Decoder[Rule] = msgspec.json.Decoder(Rule)


def encode_rule(rule: Rule) -> str:
    """The rule as JSON for the store, without the days of its calendar."""
    return msgspec.json.encode(with_days(rule, UNSET)).decode()


def decode_rule(stored: str, days: str | None = None) -> Rule:
    """The rule from stored JSON, with the stored days of its calendar.

    UnreadableRule if this version does not know it or a field, or if the days are missing.
    """
    try:
        rule = _decoder.decode(stored)
        if calendar_of(rule) is None:
            return rule
        if days is None:
            raise UnreadableRule(stored, "its calendar is missing")
        return with_days(rule, decode_days(days))
    except (msgspec.DecodeError, InvalidInput, ValueError) as error:
        raise UnreadableRule(stored, str(error)) from error
