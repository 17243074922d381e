"""Business days: which days a calendar closes, and what that does to the moments of a rule.

Days are counted from 1970, as in `cron_patterns`. A rule goes by local days: the date of a moment
is that of its time zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType

from duly.domain.checks import checked_name, checked_text
from duly.domain.moments import EPOCH
from duly.domain.time.cron import FIFTY_YEARS
from duly.domain.time.cron_patterns import EPOCH_ORDINAL, NO_DAY, MatchingDays
from duly.domain.time.occurrences import AnyRule, Occurrence, since_epoch
from duly.domain.time.offsets import BEGINNING, DAY, SECOND, offsets
from duly.errors import InvalidInput, quoted

Move = Literal["skip", "next", "previous"]
WEEKEND = "weekend"
MOST_CLOSED = 2000
LONGEST_LABEL = 100
LONGEST_CLOSED = 300
"""In days. Shorter than a year, so that two years of a yearly rule never move to the same day."""
MONDAY_OF_DAY_0 = 3
"""Day 0 is a Thursday."""
HORIZON = timedelta(days=FIFTY_YEARS)
INSTANT = timedelta.resolution
MOVES = {
    "skip": "not on closed days of",
    "next": "moved to the next business day of",
    "previous": "moved to the previous business day of",
}


class BusinessDays(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """The closed days of a calendar: weekdays (1 is Monday, 7 Sunday), and dates with labels."""

    weekend: tuple[int, ...] = (6, 7)
    closed: dict[date, str] = {}

    def __post_init__(self) -> None:
        if not self.weekend and not self.closed:
            raise InvalidInput("closed", "it closes no day; give dates or weekend days")
        for each in self.weekend:
            if not 1 <= each <= 7:
                raise InvalidInput("weekend", f"{each} is no weekday; give 1 (Monday) to 7")
        if len(set(self.weekend)) == 7:
            raise InvalidInput("weekend", "it leaves no business day; leave out one of the seven")
        if len(self.closed) > MOST_CLOSED:
            raise InvalidInput(
                "closed", f"there are {len(self.closed)} dates; give at most {MOST_CLOSED}"
            )
        for day, label in self.closed.items():
            if not 1970 <= day.year < 9000:
                raise InvalidInput("closed", f"{day} is not between 1970 and 9000")
            if label:
                checked_text("closed", label, LONGEST_LABEL)
        self._check_stretches()

    def __hash__(self) -> int:
        # Dates are compared only if the numbers of them are equal.
        return hash((self.weekend, len(self.closed)))

    def _check_stretches(self) -> None:
        for first, end in self.stretches(sorted(self._closed)):
            if end - first > LONGEST_CLOSED:
                raise InvalidInput(
                    "closed",
                    f"from {day_of_number(first)} on it is closed for {end - first} days; "
                    f"{LONGEST_CLOSED} in a row are possible",
                )

    def stretches(self, days: list[int]) -> Iterator[tuple[int, int]]:
        """The closed stretches that contain these days, in order: first day, and the day after."""
        reached = -DAY
        for day in days:
            if day >= reached and self.is_closed(day):
                reached = self.next_open(day)
                yield self.previous_open(day) + 1, reached

    @cached_property
    def _closed(self) -> frozenset[int]:
        return frozenset(map(number_of_day, self.closed))

    @cached_property
    def _weekdays(self) -> frozenset[int]:
        return frozenset(each - 1 for each in self.weekend)

    def is_closed(self, day: int) -> bool:
        """Whether a day is no business day."""
        return (day + MONDAY_OF_DAY_0) % 7 in self._weekdays or day in self._closed

    def next_open(self, day: int) -> int:
        """The first business day at or after a day."""
        while self.is_closed(day):
            day += 1
        return day

    def previous_open(self, day: int) -> int:
        """The last business day at or before a day."""
        while self.is_closed(day):
            day -= 1
        return day

    def moved(self, day: int, move: Move) -> int | None:
        """The business day on which a day's moments come; None if they are left out."""
        if not self.is_closed(day):
            return day
        if move == "skip":
            return None
        return self.next_open(day) if move == "next" else self.previous_open(day)

    def sources(self, day: int, move: Move) -> range:
        """The days whose moments come on this business day: itself, and closed ones beside it."""
        first = self.previous_open(day - 1) + 1 if move == "next" else day
        last = self.next_open(day + 1) - 1 if move == "previous" else day
        return range(first, last + 1)

    def reason(self, day: date) -> str:
        """Why a day is closed: its label, or that it is on a weekend."""
        return self.closed.get(day) or ("closed" if day in self.closed else WEEKEND)


class Except(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a rule does on the closed days of a calendar.

    `days` are those of the calendar of that name in the store; they are not stored with the rule.
    `tz` is the zone of the days for a rule that has none itself.
    """

    calendar: str
    move: Move = "skip"
    tz: str | None = None
    days: BusinessDays | UnsetType = UNSET

    def __post_init__(self) -> None:
        checked_name("calendar", self.calendar)
        if self.move not in get_args(Move):
            moves = ", ".join(get_args(Move))
            raise InvalidInput("move", f"{quoted(self.move)} is none of {moves}")

    @property
    def known(self) -> BusinessDays:
        """The days; InvalidInput if only the name of the calendar is known."""
        if self.days is UNSET:
            raise InvalidInput(
                "calendar",
                f"only the name {self.calendar!r} is known here; give duly.except_ the calendar "
                "that app.calendars.get returns, or declare a schedule with the rule",
            )
        return self.days

    def describe(self) -> str:
        """Such as ", moved to the next business day of nrw"."""
        return f", {MOVES[self.move]} {self.calendar}"


class OnDays(AnyRule, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A rule that a calendar may change."""

    except_: Except | UnsetType = msgspec.field(default=UNSET, name="except")

    @property
    def except_words(self) -> str:
        """What the calendar does, for the end of a description."""
        return "" if self.except_ is UNSET else self.except_.describe()

    def _refuse_zone(self) -> None:
        if self.except_ is not UNSET and self.except_.tz is not None:
            raise InvalidInput("tz", "the rule has a time zone of its own; leave out that of days")


class DaysExcept:
    """The matching days of a pattern, with closed ones left out or moved."""

    def __init__(self, days: MatchingDays, calendar: BusinessDays, move: Move) -> None:
        self._days = days
        self._calendar = calendar
        self._move = move

    def next(self, day: int) -> int:
        """The first day at or after a day; at least NO_DAY if there is none."""
        calendar = self._calendar
        if self._move == "next":
            return calendar.next_open(self._days.next(calendar.previous_open(day - 1) + 1))
        if self._move == "previous":
            source = self._days.next(calendar.next_open(day))
            return source if source >= NO_DAY else calendar.previous_open(source)
        found, last = self._days.next(day), day + FIFTY_YEARS
        while calendar.is_closed(found):
            found = self._days.next(calendar.next_open(found))
            if found > last:
                return NO_DAY
        return found

    def matches(self, day: int) -> bool:
        """Whether moments come on a day."""
        return self.next(day) == day

    def count(self, start: int, end: int) -> int:
        """The number of days from `start` up to `end`."""
        total, day = 0, self.next(start)
        while day < end:
            total += 1
            day = self.next(day + 1)
        return total


class LocalDays:
    """The days of a zone, as instants: the time since 1970 in UTC."""

    def __init__(self, zone_name: str) -> None:
        self._offsets = offsets(zone_name)

    def day_of(self, instant: timedelta) -> int:
        """The local day of an instant."""
        second = instant // SECOND
        return (second + self._offsets.at(max(second, BEGINNING)).offset) // DAY

    def start(self, day: int) -> timedelta:
        """The first instant of a day or, if the clock skips the day, after it."""
        local = day * DAY
        stretch = self._offsets.at(max(local - 2 * DAY, BEGINNING))
        while stretch.end + stretch.offset <= local:
            stretch = self._offsets.at(stretch.end)
        return max(stretch.start, local - stretch.offset) * SECOND

    def spans(self, first: int, end: int) -> Iterator[tuple[timedelta, timedelta]]:
        """The instants on the days from `first` up to `end`; a jump back may repeat a day."""
        low, high = first * DAY, end * DAY
        for each in self._offsets.through(max(low - 2 * DAY, BEGINNING), high + 2 * DAY):
            begins = max(each.start, low - each.offset)
            ends = min(each.end, high - each.offset)
            if begins < ends:
                yield begins * SECOND, ends * SECOND


class OpenMoments:
    """The moments of a rule that are on business days; it visits closed stretches, not moments."""

    def __init__(self, plain: AnyRule, days: BusinessDays, zone_name: str) -> None:
        self._plain = plain
        self._days = days
        self._local = LocalDays(zone_name)

    def next(self, after: timedelta) -> Occurrence | None:
        """The first one after an instant; None if there is none in 50 years."""
        limit = after + HORIZON
        while (found := self._plain._next(after)) is not None and found.at - EPOCH <= limit:
            day = self._local.day_of(found.at - EPOCH)
            if not self._days.is_closed(day):
                return found
            reopens = self._local.start(self._days.next_open(day))
            after = max(found.at - EPOCH, reopens - INSTANT)
        return None

    def last(self, after: datetime, until: datetime) -> Occurrence | None:
        """The last one after the first moment and not after the second."""
        while until > after and (found := self._plain.last(after, until)) is not None:
            day = self._local.day_of(found.at - EPOCH)
            if not self._days.is_closed(day):
                return found
            closes = EPOCH + self._local.start(self._days.previous_open(day) + 1)
            until = min(closes, found.at) - INSTANT
        return None

    def count(self, after: datetime, until: datetime) -> int:
        """How many are after the first moment and not after the second."""
        low, high = since_epoch(after, "after"), since_epoch(until, "until")
        if high <= low:
            return 0
        days = range(self._local.day_of(low), self._local.day_of(high) + 1)
        return self._plain.count(after, until) - sum(
            self._plain.count(EPOCH + max(low, begins), EPOCH + min(high, ends))
            for first, end in self._days.stretches(list(days))
            for begins, ends in self._before(first, end)
            if max(low, begins) < min(high, ends)
        )

    def _before(self, first: int, end: int) -> Iterator[tuple[timedelta, timedelta]]:
        """The spans of days as `count` takes them: without the first moment, with the last."""
        for begins, ends in self._local.spans(first, end):
            yield begins - INSTANT, ends - INSTANT


def number_of_day(day: date) -> int:
    """A date as the number of days since 1970."""
    return day.toordinal() - EPOCH_ORDINAL


def day_of_number(number: int) -> date:
    """The date of a number of days since 1970."""
    return date.fromordinal(number + EPOCH_ORDINAL)


def moved_date(day: date, given: Except | UnsetType) -> date | None:
    """The date on which the moments of a date come; None if they are left out."""
    if given is UNSET:
        return day
    found = given.known.moved(number_of_day(day), given.move)
    return None if found is None else day_of_number(found)


_days = msgspec.json.Decoder(BusinessDays)


@lru_cache(256)
def decode_days(stored: str) -> BusinessDays:
    """The days from stored JSON; cached, because many schedules have the same calendar."""
    return _days.decode(stored)


def encode_days(days: BusinessDays) -> str:
    """The days as JSON for the store, sorted by date."""
    return msgspec.json.encode(days).decode()
