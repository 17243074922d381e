"""The closed days of a calendar, checked as a caller gives them, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime

from duly.domain.time.business_days import BusinessDays
from duly.errors import InvalidInput, quoted
from duly.records.calendar import CalendarSpec, Closed, Weekday

NUMBERS = {weekday: number for number, weekday in enumerate(Weekday, 1)}


def checked_days(closed: Closed, weekend: Iterable[Weekday | str]) -> BusinessDays:
    """The days; InvalidInput names the wrong one."""
    return BusinessDays(checked_weekend(weekend), checked_closed(closed))


def days_of(calendar: CalendarSpec) -> BusinessDays:
    """The days of a record."""
    return checked_days(calendar.closed, calendar.weekend)


def weekend_of(days: BusinessDays) -> tuple[Weekday, ...]:
    """The closed weekdays by name."""
    return tuple(weekday for weekday, number in NUMBERS.items() if number in days.weekend)


def checked_weekend(given: Iterable[Weekday | str]) -> tuple[int, ...]:
    """The numbers of weekdays, in their order."""
    if isinstance(given, str):
        raise InvalidInput("weekend", f"give a list, as in [{quoted(given)}]")
    return tuple(sorted({NUMBERS[_weekday(each)] for each in given}))


def _weekday(given: Weekday | str) -> Weekday:
    try:
        return Weekday(given)
    except ValueError:
        raise InvalidInput("weekend", f"{quoted(given)} is none of {', '.join(Weekday)}") from None


def checked_closed(given: Closed) -> dict[date, str]:
    """The closed dates with their labels, in their order."""
    named = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, "")
    for day, label in named.items():
        if not isinstance(day, date) or isinstance(day, datetime):
            raise InvalidInput("closed", f"{quoted(day)} is no date; give date(2026, 12, 25)")
        if not isinstance(label, str):
            raise InvalidInput("closed", f"the label {quoted(label)} of {day} is not text")
    return dict(sorted(named.items()))
