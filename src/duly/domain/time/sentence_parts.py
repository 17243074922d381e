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
)
from duly.errors import quoted


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
    count: int | None = None
    months: list[int] | None = None


def _times(found: re.Match[str]) -> list[time]:
    return [_clock(each) for each in _items(found[0].removeprefix("at "))]


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
    for part in re.findall(PART, found["parts"]):
        words = part.split()
        unit = next(each for each in UNITS if each in part)
        if fields and UNITS.index(unit) <= max(UNITS.index(each) for each in fields):
            raise Unclear(f"{quoted(part)} is not larger than the unit before it")
        if words[0] == "every":
            step = int({"other": "2"}.get(words[1], words[1] if words[1].isdigit() else "1"))
            if not step:
                raise Unclear(f"{quoted(part)} has to be at least 1 {unit}")
            fields[unit] = "*" if step == 1 else f"*/{step}"
        else:
            fields[unit] = _series(" ".join(words[1:]))
    if found["past"] is not None:
        if fields != {"hour": "*"}:
            raise Unclear(f"{quoted('at minute ' + found['past'])} follows `every hour` only")
        fields = {"minute": _series(found["past"]), "hour": "*"}
    return fields


def _series(text: str) -> str:
    """Numbers as an item of a cron expression."""
    text = re.sub(r"\b0+(?=\d)", "", text.replace(" in steps of ", "/"))
    return ",".join(_items(text)).replace(" to ", "-")


def _window(found: re.Match[str]) -> tuple[time, time]:
    return _clock(found["start"] or found["first"]), _clock(found["end"] or found["last"])


def _all_days(found: re.Match[str]) -> tuple[Days, str | None, Days | None]:
    return _days(found["days"]), found["how"], _days(found["more"]) if found["more"] else None


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
            days.month = _month(re.search(MONTH, text)[0])  # type: ignore[index]
            days.monthdays.append(re.search(r"\d+", text)[0])  # type: ignore[index]
        case "nth":
            weekday = _weekday(re.search(f"({WEEKDAY}) of", text)[1])  # type: ignore[index]
            places = [_ordinal(each) for each in re.findall(rf"{ORDINAL}(?! of)", text)]
            days.weekdays += [f"{weekday}#{each}" for each in places] or [f"{weekday}L"]
        case "last_workday" | "last_day":
            days.monthdays.append("LW" if kind == "last_workday" else "L")
        case "monthday":
            series = re.search(ORDINALS, text)[0]  # type: ignore[index]
            days.monthdays.append(_series(re.sub(ORDINAL, lambda each: _ordinal(each[0]), series)))
        case "weekday":
            first, last = (_weekday(each) for each in (re.findall(WEEKDAY, text) * 2)[:2])
            days.weekdays += [str((first + n) % 7) for n in range((last - first) % 7 + 1)]
        case "weekdays":
            days.weekdays += list("12345")
        case "weekend":
            days.weekdays += ["6", "0"]


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


MEANINGS: dict[str, Callable[[re.Match[str]], object]] = {
    "times": _times,
    "numbers": _numbers,
    "window": _window,
    "days": _all_days,
    "period": _period,
    "count": _count,
    "months": _months,
}
