"""Rules described in English; an expression without a special phrase lists its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta

from duly.domain.time.cron_patterns import EVERY_MONTH, EVERY_MONTHDAY, Fields, Monthdays, Weekdays

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
PLACES = ("first", "second", "third", "fourth", "fifth")
UNITS = (
    ("day", timedelta(days=1)),
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
    ("second", timedelta(seconds=1)),
)
MOST_TIMES = 6
WHOLE_HOUR = tuple(range(60))
WHOLE_DAY = tuple(range(24))
WHOLE_WEEK = tuple(range(7))
LEAP_DAY = {
    "feb28": " (28 February in other years)",
    "mar1": " (1 March in other years)",
    "skip": " (in leap years only)",
}


def of_cron(fields: Fields) -> str:
    """A cron expression as text: "at 09:00 on Monday", "every 15 minutes"."""
    return f"{_times(fields)}{_days(fields)}"


def of_interval(interval: timedelta) -> str:
    """A duration in the largest unit that divides it: "90 seconds", "hour"."""
    for unit, size in UNITS:
        # "every day" would be wrong: at a clock change, 24 hours later is another time of day.
        if not interval % size and interval // size > (unit == "day"):
            return _counted(interval // size, unit)
    return f"{interval.total_seconds():.15g} seconds"


def of_time(clock: time) -> str:
    """A time of day, with its seconds if it has any."""
    return clock.isoformat() if clock.second or clock.microsecond else f"{clock:%H:%M}"


def of_date(month: int, day: int) -> str:
    """A day of the year: "29 February"."""
    return f"{day} {MONTHS[month - 1]}"


def of_moment(moment: datetime) -> str:
    """A date and a time: "15 November 2026 at 09:00"."""
    return f"{of_date(moment.month, moment.day)} {moment.year} at {of_time(moment.time())}"


def of_instant(moment: datetime) -> str:
    """A date and a time in UTC."""
    return f"{of_moment(moment.astimezone(UTC))}, UTC"


def of_leap_day(policy: str) -> str:
    """What happens to 29 February in other years."""
    return LEAP_DAY[policy]


def _times(fields: Fields) -> str:
    if _names_times(fields):
        return f"at {_listed([of_time(each) for each in _clock_times(fields)])}"
    interval = _interval(fields)
    if interval:
        return f"{interval}{_hours_of_interval(fields)}"
    spelled = _spelled_out(fields)
    return spelled if spelled.startswith("every") else f"at {spelled}"


def _names_times(fields: Fields) -> bool:
    return len(fields.hours) * len(fields.minutes) * len(fields.seconds) <= MOST_TIMES


def _clock_times(fields: Fields) -> list[time]:
    return [
        time(hour, minute, second)
        for hour in fields.hours
        for minute in fields.minutes
        for second in fields.seconds
    ]


def _interval(fields: Fields) -> str:
    """The interval, if the minutes or seconds are evenly spaced; else an empty text."""
    if fields.seconds == (0,) and (step := _even_step(fields.minutes)):
        return f"every {_counted(step, 'minute')}"
    if fields.minutes == WHOLE_HOUR and (step := _even_step(fields.seconds)):
        return f"every {_counted(step, 'second')}"
    return ""


def _even_step(numbers: Sequence[int]) -> int:
    """The step of numbers evenly spaced from 0 to 59; 0 if they are not."""
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 60
    even = 60 % step == 0 and list(numbers) == list(range(0, 60, step))
    return step if even and step < 60 else 0


def _hours_of_interval(fields: Fields) -> str:
    if fields.hours == WHOLE_DAY:
        return ""
    if not _is_run(fields.hours):
        return f" of {_named('hour', fields.hours)}"
    first = time(fields.hours[0], fields.minutes[0], fields.seconds[0])
    last = time(fields.hours[-1], fields.minutes[-1], fields.seconds[-1])
    return f" from {of_time(first)} to {of_time(last)}"


def _spelled_out(fields: Fields) -> str:
    second = "" if fields.seconds == (0,) else _named("second", fields.seconds, WHOLE_HOUR)
    minute = _named("minute", fields.minutes, WHOLE_HOUR)
    hour = _named("hour", fields.hours, WHOLE_DAY)
    if fields.minutes == WHOLE_HOUR and fields.hours == WHOLE_DAY:
        hour = ""
    return " of ".join(filter(None, (second, minute, hour)))


def _days(fields: Fields) -> str:
    monthdays, weekdays = _monthdays(fields.monthdays), _weekdays(fields.weekdays)
    months = _months(fields.months)
    if monthdays and weekdays:
        two = (
            (weekdays, "but only", monthdays) if fields.both else (monthdays, "and also", weekdays)
        )
        return f" on {two[0]}, {two[1]} on {two[2]}{months and f', only{months}'}"
    if not fields.both or not (monthdays or weekdays):
        # If one of the two fields is enough and one allows every day, all days match.
        return f"{' every day' if _names_times(fields) else ''}{months}"
    if monthdays and _is_one_date(fields):
        return f" on {of_date(fields.months[0], fields.monthdays.numbers[0])}"
    return f" on {monthdays or weekdays}{months}"


def _is_one_date(fields: Fields) -> bool:
    days = fields.monthdays
    return len(fields.months) == len(days.numbers) == 1 and not (days.last or days.last_workday)


def _monthdays(days: Monthdays) -> str:
    """The days of the month; empty if all of them match."""
    if days.numbers == EVERY_MONTHDAY:
        return ""
    numbered = f"the {_series(days.numbers, _ordinal)} of the month" if days.numbers else ""
    last = "the last day of the month" if days.last else ""
    workday = "the last day from Monday to Friday of the month" if days.last_workday else ""
    return _listed([each for each in (numbered, last, workday) if each])


def _weekdays(days: Weekdays) -> str:
    """The days of the week; empty if all of them match."""
    if days.numbers == WHOLE_WEEK:
        return ""
    lasts = [f"the last {WEEKDAYS[each]} of the month" for each in days.lasts]
    nths = [f"the {PLACES[nth - 1]} {WEEKDAYS[each]} of the month" for each, nth in days.nths]
    return _listed([*_plain_weekdays(days.numbers), *lasts, *nths])


def _plain_weekdays(numbers: Sequence[int]) -> list[str]:
    week = sorted(number or 7 for number in numbers)
    names = [WEEKDAYS[number % 7] for number in week]
    return [f"{names[0]} to {names[-1]}"] if _is_run(week) and len(week) > 2 else names


def _months(numbers: Sequence[int]) -> str:
    if numbers == EVERY_MONTH:
        return ""
    names = [MONTHS[number - 1] for number in numbers]
    is_run = _is_run(numbers) and len(numbers) > 2
    return f" from {names[0]} to {names[-1]}" if is_run else f" in {_listed(names)}"


def _named(unit: str, numbers: Sequence[int], whole: Sequence[int] = ()) -> str:
    if numbers == whole:
        return f"every {unit}"
    return f"{unit}{'s' if len(numbers) > 1 else ''} {_series(numbers)}"


def _series(numbers: Sequence[int], spell: Callable[[int], str] = str) -> str:
    """Numbers as a range, as steps, or as a list."""
    step = numbers[1] - numbers[0] if len(numbers) > 2 else 0
    if not step or list(numbers) != list(range(numbers[0], numbers[-1] + 1, step)):
        return _listed([spell(number) for number in numbers])
    steps = f" in steps of {step}" if step > 1 else ""
    return f"{spell(numbers[0])} to {spell(numbers[-1])}{steps}"


def _is_run(numbers: Sequence[int]) -> bool:
    return numbers[-1] - numbers[0] == len(numbers) - 1 if numbers else False


def _counted(count: int, unit: str) -> str:
    return unit if count == 1 else f"{count} {unit}s"


def _ordinal(number: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if 11 <= number <= 13 else endings.get(number % 10, 'th')}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
