"""The rules of schedules: their constructors, and their encoding for the store.

`cron`, `every`, `at`, `yearly` and `any_of` check their input and name the wrong field. A stored
rule that a newer version wrote is refused as unreadable.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

import msgspec

from duly.domain.checks import LONGEST_WAIT, checked_moment
from duly.domain.time import sentences
from duly.domain.time.combinations import AnyOf
from duly.domain.time.cron import normal
from duly.domain.time.durations import duration
from duly.domain.time.occurrences import Occurrence
from duly.domain.time.offsets import EPOCH
from duly.domain.time.recurrences import MILLISECOND, Cron, DstGap, Every
from duly.domain.time.walltimes import At, Feb29, TimeOfDay, Yearly
from duly.domain.time.zones import checked_zone
from duly.errors import InvalidInput, UnreadableRule, quoted

__all__ = [
    "AnyOf", "At", "Cron", "Every", "Occurrence", "Rule", "Yearly",
    "any_of", "at", "cron", "decode_rule", "encode_rule", "every", "yearly",
]  # fmt: skip

Rule = Cron | Every | At | Yearly | AnyOf

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
    """The rule as JSON for the store."""
    return msgspec.json.encode(rule).decode()


def decode_rule(stored: str) -> Rule:
    """The rule from stored JSON; UnreadableRule if this version does not know it or a field."""
    try:
        return _decoder.decode(stored)
    except (msgspec.DecodeError, InvalidInput, ValueError) as error:
        raise UnreadableRule(stored, str(error)) from error
