"""What each phrase of a sentence means."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import time

import msgspec

from duly.domain.time.cron import MONTH_NAMES, WEEKDAY_NAMES
from duly.domain.time.descriptions import PLACES
from duly.domain.time.phrases import (
    COUNTS,
    DAY,
    KINDS_OF_DAY,
    MONTH,
    ORDINAL,
    ORDINALS,
    PART,
    PERIODS,
    UNITS,
    WEEKDAY,
    WHOLE,
)
from duly.errors import quoted

LONGEST_STEP = 9
"""The digits of a number of seconds in 100 years, and some more."""


class Unclear(Exception):
    """Why a sentence is not understood."""


class Days(msgspec.Struct):
    """Days of the month and of the week, as lists of a cron expression."""

    monthdays: list[str] = msgspec.field(default_factory=list)
    weekdays: list[str] = msgspec.field(default_factory=list)
    month: int | None = None
    """The month of a date, as in 24 December."""


class Said(msgspec.Struct):
    """What the phrases of a sentence say; each can be said once."""

    times: list[time] | None = None
    numbers: dict[str, str] | None = None
    """The fields of the smallest unit named, and of larger ones."""
    window: tuple[time, time] | None = None
    days: tuple[Days, str | None, Days | None] | None = None
    period: str | None = None
    once: str | None = None
    """The period in which there may be one run."""
    count: int | None = None
    months: list[int] | None = None


def _times(found: re.Match[str]) -> list[time]:
    given = _items(found[0].removeprefix("at "))
    _check_halves(given)
    times = [_clock(each) for each in given]
    if any(map(_is_bare, given)) and times != sorted(times):
        raise Unclear("its hours do not ascend; say am or pm, or 17 for 5pm")
    return times


def _check_halves(given: list[str]) -> None:
    """Unclear if one time has am or pm and another may lack it, as in `5 and 6pm`."""
    halved = [each for each in given if each.endswith(("am", "pm"))]
    if halved and (bare := [each for each in given if _is_bare(each)]):
        raise Unclear(f"{quoted(bare[0])} has no am or pm, and {quoted(halved[0])} has")


def _is_bare(text: str) -> bool:
    """Whether it is an hour that may lack am or pm."""
    return text.isdigit() and int(text) <= 12


def _clock(text: str) -> time:
    if text in ("noon", "midnight"):
        return time(12 if text == "noon" else 0)
    half = text[-2:] if text[-1] == "m" else ""
    hour, minute, second = (*map(int, text.removesuffix(half).split(":")), 0, 0)[:3]
    if half and not 1 <= hour <= 12:
        raise Unclear(f"{quoted(text)} is no time: with {half}, hours go from 1 to 12")
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    try:
        return time(hour, minute, second)
    except ValueError:
        raise Unclear(f"{quoted(text)} is no time of day") from None


def _numbers(found: re.Match[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    parts = re.findall(PART, found["parts"])
    for part in parts:
        words = part.split()
        unit = next(each for each in UNITS if each in part)
        if fields and UNITS.index(unit) <= max(UNITS.index(each) for each in fields):
            raise Unclear(f"{quoted(part)} is not larger than the unit before it")
        if words[0] == "every":
            fields[unit] = _every(words, unit)
        else:
            fields[unit] = _series(" ".join(words[1:]), WHOLE[unit])
            if part == parts[-1] and unit != "hour":
                larger = UNITS[UNITS.index(unit) + 1]
                raise Unclear(f"after {quoted(part)} say `of every {larger}`")
    if found["past"] is not None:
        if fields != {"hour": "*"}:
            raise Unclear(f"{quoted('at minute ' + found['past'])} follows `every hour` only")
        fields = {"minute": _series(found["past"]), "hour": "*"}
    return fields


def _every(words: list[str], unit: str) -> str:
    step = {"other": "2"}.get(words[1], words[1] if words[1].isdigit() else "1").lstrip("0")
    if not step or len(step) > LONGEST_STEP:
        raise Unclear(f"{quoted(' '.join(words))} is not from 1 {unit} to 100 years")
    return "*" if step == "1" else f"*/{step}"


def _series(text: str, whole: int = 0) -> str:
    """Numbers as an item of a cron expression; `*/2` if that has the same of `whole` ones."""
    text = re.sub(r"\b0+(?=\d)", "", text.replace(" in steps of ", "/"))
    spaced = re.fullmatch(r"0 to (\d+)/(\d+)", text)
    if spaced and whole and int(spaced[1]) + int(spaced[2]) == whole:
        return f"*/{spaced[2]}"
    return ",".join(_items(text)).replace(" to ", "-")


def _window(found: re.Match[str]) -> tuple[time, time]:
    given = [found["start"] or found["first"], found["end"] or found["last"]]
    _check_halves(given)
    start, end = map(_clock, given)
    if start == end:
        raise Unclear("it begins and ends at the same time; leave that out for the whole day")
    if end < start and any(map(_is_bare, given)):
        raise Unclear(f"{quoted(found[0])} is backwards; say am or pm, or 17 for 5pm")
    return start, end


def _all_days(found: re.Match[str]) -> tuple[Days, str | None, Days | None]:
    days, how, more = found["days"], found["how"], found["more"]
    if how is None:
        return _days(days), None, None
    for each in (days, more):
        if _days(each).monthdays and "month" not in each:
            raise Unclear(f"after {quoted(each)} say `of the month`")
    return _days(days), how, _days(more)


def _days(text: str) -> Days:
    days = Days()
    for found in re.finditer(DAY, text):
        kind = next(kind for kind, day in KINDS_OF_DAY.items() if re.fullmatch(day, found[0]))
        _add(days, kind, found[0])
    if days.month is not None and len(days.monthdays) > 1:
        raise Unclear("a date cannot be joined with other days")
    if days.monthdays and days.weekdays:
        raise Unclear(
            "it joins days of the month and of the week; write `on the 1st of the month, and also "
            "on Friday`"
        )
    return days


def _add(days: Days, kind: str, text: str) -> None:
    match kind:
        case "date":
            days.month = _month(_part(MONTH, text))
            days.monthdays.append(_part(r"\d+", text))
        case "nth":
            weekday = _weekday(_part(f"{WEEKDAY}(?= of)", text))
            places = [_ordinal(each) for each in re.findall(rf"{ORDINAL}(?! of)", text)]
            days.weekdays += [f"{weekday}#{each}" for each in places] or [f"{weekday}L"]
        case "last_workday" | "last_day":
            days.monthdays.append("LW" if kind == "last_workday" else "L")
        case "monthday":
            series = _part(ORDINALS, text)
            days.monthdays.append(_series(re.sub(ORDINAL, lambda each: _ordinal(each[0]), series)))
        case "weekday":
            first, last = (_weekday(each) for each in (re.findall(WEEKDAY, text) * 2)[:2])
            days.weekdays += [str((first + n) % 7) for n in range((last - first) % 7 + 1)]
        case "weekdays":
            days.weekdays += list("12345")
        case "weekend":
            days.weekdays += ["6", "0"]


def _part(pattern: str, text: str) -> str:
    """The part of a phrase that a pattern matches, which the phrase always has."""
    found = re.search(pattern, text)
    assert found is not None
    return found[0]


def _weekday(text: str) -> int:
    return WEEKDAY_NAMES.index(text[:3].upper())


def _ordinal(text: str) -> str:
    return str(PLACES.index(text) + 1) if text in PLACES else text[:-2]


def _count(found: re.Match[str]) -> int:
    named = found["count"]
    if named is None:
        return 2
    return int(named) if named.isdigit() else COUNTS[named]


def _months(found: re.Match[str]) -> list[int]:
    if found["months"]:
        return [_month(each) for each in _items(found["months"])]
    first, last = _month(found["from"]), _month(found["to"])
    return [(first - 1 + step) % 12 + 1 for step in range((last - first) % 12 + 1)]


def _month(text: str) -> int:
    return MONTH_NAMES.index(text[:3].upper()) + 1


def _items(text: str) -> list[str]:
    return re.split(", and |, | and ", text)


def _period(found: re.Match[str]) -> str:
    return found["period"] or PERIODS[found[0]]


def _once(found: re.Match[str]) -> str:
    return found["once"]


MEANINGS: dict[str, Callable[[re.Match[str]], object]] = {
    "times": _times,
    "numbers": _numbers,
    "window": _window,
    "days": _all_days,
    "period": _period,
    "once": _once,
    "count": _count,
    "months": _months,
}
