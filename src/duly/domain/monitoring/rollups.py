"""Counts of what happened, kept by the minute and returned as a time series."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from duly.domain.checks import checked_moment, checked_wait
from duly.domain.monitoring.distributions import Times
from duly.errors import InvalidInput
from duly.records.stats import Counts, Point, Series

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
KEPT_FOR = timedelta(days=35)
"""How long the minutes are kept."""
MOST_POINTS = 1500


NOTHING = Counts()
NO_TIMES = Times()


class Tally(msgspec.Struct, frozen=True):
    """What a process counted: the counts and the distributions of durations."""

    counts: Counts = NOTHING
    times: Times = NO_TIMES

    def less(self, before: Tally) -> Tally:
        """What was counted since the other."""
        return Tally(less(self.counts, before.counts), self.times.less(before.times))

    def plus(self, other: Tally) -> Tally:
        """What both counted."""
        return Tally(plus(self.counts, other.counts), self.times.plus(other.times))

    def __bool__(self) -> bool:
        return bool(self.counts) or bool(self.times)


EMPTY = Tally()


def less(tally: Counts, before: Counts) -> Counts:
    """The first counts minus the second."""
    names = Counts.__struct_fields__
    return Counts(**{name: getattr(tally, name) - getattr(before, name) for name in names})


def plus(tally: Counts, other: Counts) -> Counts:
    """The sum of two counts."""
    names = Counts.__struct_fields__
    return Counts(**{name: getattr(tally, name) + getattr(other, name) for name in names})


def times(tally: Counts, many: int) -> Counts:
    """The counts multiplied by a number."""
    return Counts(**{name: getattr(tally, name) * many for name in Counts.__struct_fields__})


def grown(now: Mapping[datetime, Counts], before: Mapping[datetime, Counts]) -> Counts:
    """What was added since the minutes were last read; older minutes not read then are ignored."""
    newest, total = max(before, default=None), NOTHING
    for minute, tally in now.items():
        if minute in before:
            total = plus(total, less(tally, before[minute]))
        elif newest is None or minute > newest:
            total = plus(total, tally)
    return total


class Span(msgspec.Struct, frozen=True):
    """A checked period in steps of whole minutes."""

    since: datetime
    until: datetime
    step: timedelta


def checked_span(
    since: datetime | timedelta | float,
    until: datetime | None,
    step: timedelta | float,
    now: datetime,
) -> Span:
    """Check a period and its step; both ends are rounded outwards to a whole step."""
    width = timedelta(seconds=checked_wait("step", step))
    if width < MINUTE or width % MINUTE:
        raise InvalidInput("step", "give whole minutes, as in 60 or 3600 seconds")
    # The present minute is included, even if it begins exactly now.
    end = now + timedelta(microseconds=1) if until is None else checked_moment("until", until)
    begin = _start_of(since, end)
    if begin >= end:
        raise InvalidInput("since", "it has to be before `until`")
    if (end - begin) / width > MOST_POINTS:
        raise InvalidInput("step", f"that makes more than {MOST_POINTS} points; take longer steps")
    return Span(
        _rounded_down(begin, width),
        _rounded_down(end - timedelta(microseconds=1), width) + width,
        width,
    )


def _start_of(since: datetime | timedelta | float, end: datetime) -> datetime:
    if isinstance(since, datetime):
        return checked_moment("since", since)
    try:
        return end - timedelta(seconds=checked_wait("since", since))
    except OverflowError:
        raise InvalidInput("since", "give a moment, or how long before `until`") from None


def _rounded_down(moment: datetime, width: timedelta) -> datetime:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return moment - (moment - epoch) % width


def filled(
    span: Span, found: Mapping[datetime, Counts], times: Mapping[datetime, Times] | None = None
) -> Series:
    """The series of a span: what was found, and zero for all other steps."""
    points, at, known = [], span.since, times or {}
    while at < span.until:
        counts = msgspec.structs.asdict(found.get(at, NOTHING))
        points.append(Point(at=at, **counts | known.get(at, NO_TIMES).percentiles()))
        at += span.step
    return Series(since=span.since, until=span.until, step=span.step.total_seconds(), points=points)
