"""The local times that a cron expression matches, on a clock that never jumps.

Times are seconds since 1970 on the local clock; days are counted from 1970 too. `cron_runs` handles
clock changes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from calendar import monthrange
from datetime import date
from functools import lru_cache
from typing import Protocol

import msgspec

from duly.domain.time.offsets import DAY, END

HOUR = 3600
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
THURSDAY = 4
"""The weekday of day 0; Sunday is 0."""
LAST_YEAR = 9000
NO_DAY = END // DAY + 3
"""A day after the last supported one in every zone; means that no day matches."""
EVERY_MONTH = tuple(range(1, 13))
EVERY_MONTHDAY = tuple(range(1, 32))


class Monthdays(msgspec.Struct, frozen=True):
    """Days of the month; `last` is `L`, `last_workday` is `LW`."""

    numbers: tuple[int, ...]
    last: bool = False
    last_workday: bool = False


class Weekdays(msgspec.Struct, frozen=True):
    """Weekdays, Sunday is 0: each one, the last of the month (`5L`), the nth (`5#2`)."""

    numbers: tuple[int, ...]
    lasts: tuple[int, ...] = ()
    nths: tuple[tuple[int, int], ...] = ()


class Fields(msgspec.Struct, frozen=True):
    """The parsed fields of an expression.

    `both`: a day must match the day of the month and the weekday, not only one of them.
    `is_fixed`: second, minute and hour do not start with `*` (see cron_runs).
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    monthdays: Monthdays
    months: tuple[int, ...]
    weekdays: Weekdays
    both: bool
    is_fixed: bool


class Times:
    """The matching seconds of a matching day."""

    def __init__(self, fields: Fields) -> None:
        within = (60 * minute + second for minute in fields.minutes for second in fields.seconds)
        self._within_hour = array("H", within)
        self._hour_from = [_first_from(fields.hours, hour, 24) for hour in range(25)]
        self._hours_before = [bisect_left(fields.hours, hour) for hour in range(25)]
        self.count = len(fields.hours) * len(self._within_hour)

    def next(self, second: int) -> int:
        """The first match at or after a second of the day; at least 86,400 if there is none."""
        hour, rest = divmod(second, HOUR)
        found = self._hour_from[hour]
        if found == hour:
            place = bisect_left(self._within_hour, rest)
            if place < len(self._within_hour):
                return hour * HOUR + self._within_hour[place]
            found = self._hour_from[hour + 1]
        return found * HOUR + self._within_hour[0]

    def before(self, second: int) -> int:
        """The number of matches before a second of the day."""
        hour, rest = divmod(second, HOUR)
        whole = self._hours_before[hour] * len(self._within_hour)
        matches = self._hour_from[hour] == hour
        return whole + (bisect_left(self._within_hour, rest) if matches else 0)


class MatchingDays(Protocol):
    """The days on which a pattern matches."""

    def next(self, day: int) -> int: ...
    def matches(self, day: int) -> bool: ...
    def count(self, start: int, end: int) -> int: ...


class Days:
    """The matching days, by a repeating week if only the weekday matters, else by month."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._week = _week_ahead(fields)
        self._month_from = [_first_from(fields.months, month, 13) for month in range(14)]
        self._masks: dict[int, int] = {}

    def next(self, day: int) -> int:
        """The first match at or after a day; at least NO_DAY if there is none."""
        if self._week is not None:
            return day + self._week[(day + THURSDAY) % 7]
        if day >= NO_DAY:
            return NO_DAY
        present = date.fromordinal(day + EPOCH_ORDINAL)
        _, mask = self._month(present.year, present.month)
        left = mask >> present.day
        return day + _lowest(left) if left else self._next_month(present.year, present.month)

    def matches(self, day: int) -> bool:
        """Whether a day matches."""
        return self.next(day) == day

    def count(self, start: int, end: int) -> int:
        """The number of matching days from `start` up to `end`."""
        if self._week is not None:
            weeks, rest = divmod(end - start, 7)
            odd = sum(self._week[(start + each + THURSDAY) % 7] == 0 for each in range(rest))
            return weeks * self._week.count(0) + odd
        return self._count_by_month(start, end)

    def _count_by_month(self, start: int, end: int) -> int:
        total, day = 0, self.next(start)
        while day < end:
            present = date.fromordinal(day + EPOCH_ORDINAL)
            first, mask = self._month(present.year, present.month)
            mask = mask >> present.day << present.day
            beyond = end - first + 1
            total += (mask & ((1 << beyond) - 1)).bit_count() if beyond < 32 else mask.bit_count()
            day = self._next_month(present.year, present.month)
        return total

    def _next_month(self, year: int, month: int) -> int:
        """The first matching day of the months after this one."""
        while year <= LAST_YEAR:
            month = self._month_from[month + 1]
            if month == 13:
                year, month = year + 1, self._month_from[1]
            first, mask = self._month(year, month)
            if mask:
                return first + _lowest(mask) - 1
        return NO_DAY

    def _month(self, year: int, month: int) -> tuple[int, int]:
        """The number of the month's first day, and its matching days as bits: bit 1 is the 1st."""
        first, length = _extent(year, month)
        if self._month_from[month] != month:
            return first, 0
        # Months with the same length and first weekday have the same matching days.
        shape = length * 7 + first % 7
        mask = self._masks.get(shape)
        if mask is None:
            mask = self._masks[shape] = self._mask(first, length)
        return first, mask

    def _mask(self, first: int, length: int) -> int:
        every = (1 << length + 1) - 2
        by_number = _monthday_mask(self._fields.monthdays, first, length)
        by_weekday = _weekday_mask(self._fields.weekdays, first, length)
        return every & (by_number & by_weekday if self._fields.both else by_number | by_weekday)


class Pattern:
    """The days and the times of day that match, as one sequence of seconds."""

    def __init__(self, fields: Fields, days: MatchingDays | None = None) -> None:
        self.fields = fields
        self.days = days or Days(fields)
        self._times = Times(fields)
        self._first_time = self._times.next(0)

    def next(self, local: int) -> int:
        """The first match at or after a local time; after the last supported day if none."""
        day, second = divmod(local, DAY)
        found = self.days.next(day)
        if found == day:
            time = self._times.next(second)
            if time < DAY:
                return day * DAY + time
            found = self.days.next(day + 1)
        return found * DAY + self._first_time

    def matches(self, local: int) -> bool:
        """Whether a local time matches."""
        return self.next(local) == local

    def count(self, start: int, end: int) -> int:
        """The number of matches from `start` up to `end`, computed without visiting each."""
        (first, begun), (last, reached) = divmod(start, DAY), divmod(end, DAY)
        total = self.days.count(first, last) * self._times.count
        if self.days.matches(first):
            total -= self._times.before(begun)
        if self.days.matches(last):
            total += self._times.before(reached)
        return total


def _week_ahead(fields: Fields) -> tuple[int, ...] | None:
    """Days from each weekday to the next match; None if the day of the month matters."""
    whole = fields.months == EVERY_MONTH and fields.monthdays.numbers == EVERY_MONTHDAY
    if not whole or (fields.both and (fields.weekdays.lasts or fields.weekdays.nths)):
        return None
    wanted = fields.weekdays.numbers if fields.both else tuple(range(7))
    return tuple(min((each - weekday) % 7 for each in wanted) for weekday in range(7))


def _monthday_mask(monthdays: Monthdays, first: int, length: int) -> int:
    mask = sum(1 << number for number in monthdays.numbers)
    if monthdays.last:
        mask |= 1 << length
    if monthdays.last_workday:
        saturday_or_sunday = {6: 1, 0: 2}
        mask |= 1 << length - saturday_or_sunday.get(_weekday(first + length - 1), 0)
    return mask


def _weekday_mask(weekdays: Weekdays, first: int, length: int) -> int:
    mask = 0
    for number in range(1, length + 1):
        weekday = _weekday(first + number - 1)
        is_last = weekday in weekdays.lasts and number + 7 > length
        is_nth = (weekday, (number + 6) // 7) in weekdays.nths
        if weekday in weekdays.numbers or is_last or is_nth:
            mask |= 1 << number
    return mask


def _weekday(day: int) -> int:
    return (day + THURSDAY) % 7


@lru_cache(maxsize=12_000)
def _extent(year: int, month: int) -> tuple[int, int]:
    """The number of a month's first day, and its length."""
    return date(year, month, 1).toordinal() - EPOCH_ORDINAL, monthrange(year, month)[1]


def _first_from(numbers: tuple[int, ...], least: int, none: int) -> int:
    return next((each for each in numbers if each >= least), none)


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
