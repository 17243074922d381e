"""Rules that store a local date and time: `At`, once, and `Yearly`.

The instant is computed on each use, so edits and new zone data move it. If the clock shows a time
twice, the first one is used; a time that the clock skips is moved forward by the length of the gap.
"""

from __future__ import annotations

from calendar import isleap
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, get_args

from msgspec import UNSET

from duly.domain.checks import checked_moment
from duly.domain.moments import EPOCH
from duly.domain.time import descriptions
from duly.domain.time.business_days import LONGEST_CLOSED, OnDays, moved_date
from duly.domain.time.occurrences import Occurrence, instant_text, is_in_time
from duly.domain.time.zones import checked_zone, zone
from duly.errors import InvalidInput, quoted

TimeOfDay = time
Feb29 = Literal["feb28", "mar1", "skip"]
LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
FIRST_YEAR, LAST_YEAR = 1969, 9000
"""The local years that may contain an instant from 1970 up to 9000 in UTC."""


class At(OnDays, frozen=True, tag="at"):
    """One moment: an instant with an offset and no zone, or a wall time in a zone.

    Changes of zone data move a wall time, but never an instant.
    """

    moment: datetime
    tz: str | None = None

    def __post_init__(self) -> None:
        if self.moment.tzinfo is not None:
            self._check_instant()
        elif self.tz is None:
            raise InvalidInput(
                "tz",
                f"{self.moment.isoformat()} is a time on a wall, but in which zone? Give tz, as in "
                "tz='Europe/Oslo', or a moment with its offset",
            )
        elif self._derived(self.moment) is None:
            raise InvalidInput("moment", f"{self.moment.isoformat()} is not between 1970 and 9000")
        self._refuse_zone()
        if self.except_ is not UNSET and self.except_.move == "skip":
            raise InvalidInput("move", "a single moment cannot be left out; give next or previous")

    def _check_instant(self) -> None:
        checked_moment("moment", self.moment)
        if self.tz is not None:
            raise InvalidInput(
                "tz",
                f"{self.moment.isoformat()} has an offset of its own; leave out one of the two",
            )
        if self.except_ is not UNSET:
            raise InvalidInput(
                "calendar",
                f"{self.moment.isoformat()} is an instant, which no calendar moves; give a wall "
                "time and tz",
            )

    @property
    def zone_name(self) -> str | None:
        """The zone of a wall time; None for an instant."""
        return self.tz

    def describe(self) -> str:
        """Such as "once, on 15 November 2026 at 09:00, America/Vancouver"."""
        if self.tz is None:
            return f"once, on {descriptions.of_instant(self.occurrence().at)}"
        return f"once, on {descriptions.of_moment(self.moment)}, {self.tz}{self.except_words}"

    def occurrence(self) -> Occurrence:
        """The only occurrence."""
        if self.tz is None:
            at = self.moment.astimezone(UTC)
            return Occurrence(instant_text(at), at)
        day = moved_date(self.moment.date(), self.except_) or self.moment.date()
        moved = self._derived(datetime.combine(day, self.moment.time()))
        # A move to before 1970 or after 8999 is not possible.
        derived = moved or self._derived(self.moment)
        assert derived is not None, "it was there when the rule was made"
        return derived

    def _derived(self, wall: datetime) -> Occurrence | None:
        assert self.tz is not None
        if not FIRST_YEAR <= wall.year <= LAST_YEAR:
            return None
        return derive(wall, self.tz, identity=self.moment.isoformat())

    def _next(self, after: timedelta) -> Occurrence | None:
        found = self.occurrence()
        return found if found.at - EPOCH > after else None


class Yearly(OnDays, frozen=True, tag="yearly"):
    """A day and a time of every year.

    `feb29` decides what happens to 29 February in other years. An occurrence is identified by its
    local year, so that no edit repeats or loses one.
    """

    month: int
    day: int
    time: TimeOfDay
    tz: str = "UTC"
    feb29: Feb29 = "feb28"

    def __post_init__(self) -> None:
        _check_number("month", self.month, 12)
        _check_number("day", self.day, 31)
        if self.day > LONGEST_MONTHS[self.month - 1]:
            month = descriptions.MONTHS[self.month - 1]
            raise InvalidInput("day", f"{month} has no {self.day}; give a day that it has")
        if self.time.tzinfo is not None or self.time.microsecond:
            raise InvalidInput("time", "give hours, minutes and seconds, and the zone as tz")
        if self.feb29 not in get_args(Feb29):
            raise InvalidInput(
                "feb29", f"{quoted(self.feb29)} is none of {', '.join(get_args(Feb29))}"
            )
        checked_zone(self.tz)
        self._refuse_zone()

    @property
    def zone_name(self) -> str:
        """The zone of day and time."""
        return self.tz

    def describe(self) -> str:
        """Such as "on 29 February at 09:00 (28 February in other years), Asia/Kathmandu"."""
        day = descriptions.of_date(self.month, self.day)
        other = descriptions.of_leap_day(self.feb29) if self._is_leap_day else ""
        time = descriptions.of_time(self.time)
        return f"on {day} at {time}{other}, {self.tz}{self.except_words}"

    def of_year(self, year: int) -> Occurrence | None:
        """The occurrence of a local year, if it has one."""
        named = self._day_in(year) if FIRST_YEAR <= year <= LAST_YEAR else None
        day = None if named is None else moved_date(named, self.except_)
        if day is None:
            return None
        return derive(datetime.combine(day, self.time), self.tz, identity=str(year))

    @property
    def _is_leap_day(self) -> bool:
        return (self.month, self.day) == (2, 29)

    def _day_in(self, year: int) -> date | None:
        if not self._is_leap_day or isleap(year):
            return date(year, self.month, self.day)
        return {"feb28": date(year, 2, 28), "mar1": date(year, 3, 1), "skip": None}[self.feb29]

    def _next(self, after: timedelta) -> Occurrence | None:
        # Four days back: the local year may still be the old one when the next has begun in UTC.
        back = 4 if self.except_ is UNSET else 4 + LONGEST_CLOSED
        year = max(1970 + (after.days - back) * 400 // 146_097, FIRST_YEAR)
        for each in range(year, LAST_YEAR + 1):
            found = self.of_year(each)
            if found is not None and found.at - EPOCH > after:
                return found
        return None


def derive(wall: datetime, tz: str, *, identity: str) -> Occurrence | None:
    """The instant of a wall time; None if it is outside the range that stores keep."""
    local = wall.replace(tzinfo=zone(tz), fold=0)
    offset = _offset(local)
    at = wall.replace(tzinfo=UTC, fold=0) - offset
    if not is_in_time(at):
        return None
    # Only in a gap is the instant with fold=1 earlier than the one with fold=0.
    shifted = offset < _offset(local.replace(fold=1))
    return Occurrence(identity, at, shifted)


def _offset(local: datetime) -> timedelta:
    offset = local.utcoffset()
    assert offset is not None, "a zone always knows its offset"
    return offset


def _check_number(field: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInput(field, f"{quoted(value)} is not a whole number from 1 to {most}")
