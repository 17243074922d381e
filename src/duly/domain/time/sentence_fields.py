"""The cron expressions of what a sentence says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import time, timedelta

from duly.domain.time.cron import WEEKDAY_NAMES, pattern
from duly.domain.time.descriptions import of_time
from duly.domain.time.phrases import UNITS, WHOLE
from duly.domain.time.sentence_parts import Days, Said, Unclear

SIZES = {"second": 1, "minute": 60, "hour": 3600}
REMEDIES = {
    "day": "leave out the other days",
    "week": "name days of the week, as in `on Monday`",
    "month": "name a day of the month, as in `on the 1st`",
    "year": "name a date, as in `on 24 December`",
}
RARE = re.compile(r"\b(29|30|31)\b")
"""Days that not every month has."""


def expressed(said: Said) -> Sequence[str | timedelta]:
    """The cron expressions, mostly one, or the interval if none has it."""
    if said.times is None and said.numbers is None:
        raise Unclear("it names no time of day, as in `at 9am`, and no interval")
    if said.times is not None and said.numbers is not None:
        raise Unclear("it names times of day and an interval; take one of them")
    if said.count is not None and said.count != len(said.times or ()):
        raise Unclear(f"it says {said.count} times a day; name as many times of day")
    _check_period(said)
    if said.times is not None:
        if said.window is not None:
            raise Unclear("`from` and `to` need an interval, as in `every 15 minutes`")
        if said.days is None and not (said.period or said.once or said.count):
            raise Unclear("it does not say on which days, as in `every day`")
        return [_joined(each, said) for each in _clock_fields(said.times)]
    found = _interval_fields(said)
    return [found if isinstance(found, timedelta) else _joined(found, said)]


def _check_period(said: Said) -> None:
    """Unclear if the days are not those of a day, week, month or year, as the sentence says."""
    period = said.once or said.period
    if period is None:
        return
    days, _, more = said.days or (Days(), None, None)
    is_nth = any(not each.isdigit() for each in days.weekdays)
    named = len(re.findall(r"[^,-]+", ",".join([*days.monthdays, *days.weekdays])))
    is_one = named == 1 and bool(days.monthdays or is_nth)
    right = {
        "day": said.days is None,
        "week": bool(days.weekdays) and not is_nth,
        "month": bool(days.monthdays or is_nth) and days.month is None and said.months is None,
        "year": days.month is not None or (is_one and len(said.months or ()) == 1),
    }
    if not right[period] or more is not None:
        raise Unclear(f"it says every {period}: {REMEDIES[period]}")
    rare = RARE.search(",".join(days.monthdays))
    if rare and (period == "month" or (days.month == 2 and rare[0] == "29")):
        raise Unclear(f"not every {period} has that day; leave out every {period}")
    if said.once and (named > 1 or len(said.times or ()) != 1):
        raise Unclear(f"it says once a {period}, and names more than one moment")


def _clock_fields(times: list[time]) -> list[list[str]]:
    """Second, minute and hour, of one expression for each minute that is named."""
    if len(set(times)) < len(times):
        raise Unclear("it names a time of day twice")
    hours: dict[tuple[int, ...], list[str]] = {}
    for each in sorted(times):
        hours.setdefault((each.second, each.minute), []).append(str(each.hour))
    # Minutes with the same hours fit into one expression.
    minutes: dict[tuple[int, str], list[str]] = {}
    for (second, minute), found in hours.items():
        minutes.setdefault((second, ",".join(found)), []).append(str(minute))
    return [[str(second), ",".join(each), hour] for (second, hour), each in minutes.items()]


def _interval_fields(said: Said) -> list[str] | timedelta:
    fields = said.numbers or {}
    unit, text = next(iter(fields.items()))
    if text.startswith("*/") and len(fields) == 1:
        unit, step = _in_largest_unit(unit, int(text[2:]))
        if WHOLE[unit] % step or step == WHOLE[unit]:
            if said.window or said.days or said.months:
                raise Unclear(f"every {step} {unit}s is elapsed time, without fixed times or days")
            return timedelta(seconds=step * SIZES[unit])
        fields = {unit: f"*/{step}" if step > 1 else "*"}
    for each, value in fields.items():
        if value.startswith("*/") and WHOLE[each] % int(value[2:]):
            raise Unclear(f"{value[2:]} {each}s do not divide {WHOLE[each]}")
    finest = UNITS.index(next(iter(fields)))
    clock = [fields.get(each, "0" if place < finest else "*") for place, each in enumerate(UNITS)]
    if said.window is None:
        return clock
    if said.window[1] < said.window[0] and (said.days or said.months):
        raise Unclear("it passes midnight, so it does not say to which day its end belongs")
    return _within(clock, *said.window)


def _in_largest_unit(unit: str, step: int) -> tuple[str, int]:
    while unit != "hour" and step % WHOLE[unit] == 0:
        unit, step = UNITS[UNITS.index(unit) + 1], step // WHOLE[unit]
    return unit, step


def _within(clock: list[str], first: time, last: time) -> list[str]:
    """The same, in the hours of a window that begins and ends with a run."""
    second, minute, hour = clock
    step = int(hour[2:]) if hour.startswith("*/") else 1
    if hour[0] != "*" or (last.hour - first.hour) % 24 % step:
        raise Unclear("its runs do not end where the window ends")
    found = pattern(f"{second} {minute} * * * *").fields
    ends = time(last.hour, found.minutes[-1], found.seconds[-1])
    begins = time(first.hour, found.minutes[0], found.seconds[0])
    if (first, last) != (begins, ends):
        raise Unclear(
            f"the runs of these hours are from {of_time(begins)} to {of_time(ends)}; say so, or "
            "take other hours"
        )
    count = (last.hour - first.hour) % 24 // step + 1
    hours = [(first.hour + step * n) % 24 for n in range(count)]
    return [second, minute, _compact(hours)]


def _compact(numbers: Sequence[int]) -> str:
    """Numbers as a range if they are one, else as a list."""
    ordered = sorted(numbers)
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]}-{ordered[-1]}"
    return ",".join(map(str, ordered))


def _joined(clock: list[str], said: Said) -> str:
    days, how, more = said.days or (Days(), None, None)
    months = said.months
    if days.month is not None:
        if months is not None or more is not None:
            raise Unclear("a date has its month already")
        months = [days.month]
    monthdays, weekdays = list(days.monthdays), list(days.weekdays)
    if more is not None:
        if bool(monthdays) == bool(more.monthdays) or more.month is not None:
            raise Unclear(f"`{how}` joins days of the month with days of the week")
        monthdays, weekdays = monthdays or more.monthdays, weekdays or more.weekdays
    fields = [_monthday_field(monthdays), _month_field(months), _weekday_field(weekdays)]
    if how == "but only":
        fields = _both(fields)
    elif how is None and not monthdays:
        fields[0] = "*"
    second, minute, hour = clock
    return " ".join([*([second] if second != "0" else []), minute, hour, *fields])


def _monthday_field(monthdays: list[str]) -> str:
    return ",".join(monthdays) or "*"


def _month_field(months: list[int] | None) -> str:
    return "*" if months is None else _compact(months)


def _weekday_field(weekdays: list[str]) -> str:
    plain = sorted({int(each) or 7 for each in weekdays if each.isdigit()})
    if plain == list(range(1, 8)):
        raise Unclear("these are all days of the week; say `every day`")
    named = [WEEKDAY_NAMES[each % 7] for each in plain]
    if len(plain) > 2 and plain[-1] - plain[0] == len(plain) - 1:
        named = [f"{named[0]}-{named[-1]}"]
    return ",".join([*named, *[each for each in weekdays if not each.isdigit()]]) or "*"


def _both(fields: list[str]) -> list[str]:
    """The fields of days that have to match both, which needs one that starts with `*`."""
    found = pattern(f"0 0 {' '.join(fields)}").fields
    monthdays, weekdays = found.monthdays.numbers, found.weekdays.numbers
    for step in range(2, 32):
        if monthdays == tuple(range(1, 32, step)):
            return [f"*/{step}", *fields[1:]]
        if weekdays == tuple(range(0, 7, step)):
            return [*fields[:2], f"*/{step}"]
    raise Unclear("no cron expression has these days of the week in these days of the month only")
