"""Outages: spans in which nothing was attempted although deliveries could have been.

    attempts   ━━━━━━━━┓                            ┏━━━━━━━━━━━━━┓
                       ╎          ┌── a wait ───────┼────▶        ╎
                       ╎ idle     │ outage          │ worked off  ╎
                                 began_at        ended_at

All is found from what the ledger knows: when deliveries could first have been attempted, and when
attempts ran. A wait that another cause explains makes no outage: one that was passed over before,
while others were attempted, and one that goes on when the work after it has ended.

Attempts are known by the minute in which they started, with the first and the last moment of each
minute. So an idle span is exact if it takes a minute or longer.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

import msgspec

from duly.domain.moments import EPOCH
from duly.domain.monitoring.rollups import MINUTE
from duly.domain.time.durations import seconds_of
from duly.errors import InvalidInput
from duly.records.outage import Outage

WEEK = timedelta(days=7)
LEAST = timedelta(minutes=5)
EXAMINED = 500_000
"""The number of deliveries that a report examines, newest first."""
LOOKBACK = timedelta(days=28)
"""How much earlier than asked for an outage may have begun."""


class Busy(msgspec.Struct):
    """A time in which attempts ran."""

    since: datetime
    until: datetime


class Idle(msgspec.Struct, frozen=True):
    """An idle span, and until when attempts ran after it without another; None if they still do."""

    since: datetime
    until: datetime
    busy_until: datetime | None = None
    goes_on: bool = False


class Stop(msgspec.Struct, frozen=True):
    """The span of an outage, and until when its deliveries were worked off at the latest."""

    began_at: datetime
    ended_at: datetime | None
    """None if it goes on."""
    busy_until: datetime | None


class Work:
    """When attempts ran and deliveries waited, collected from parts of the ledger."""

    def __init__(self) -> None:
        self._busy: dict[int, Busy] = {}
        self._waits: dict[tuple[int, int], datetime] = {}

    def ran(self, minute: int, since: datetime, until: datetime) -> None:
        """Add attempts that started in this minute."""
        known = self._busy.setdefault(minute, Busy(since, until))
        known.since, known.until = min(known.since, since), max(known.until, until)

    def waited(self, minute: int, ready_minute: int, ready_at: datetime) -> None:
        """Add deliveries that could be attempted from `ready_at` on, and were in this minute."""
        known = self._waits.setdefault((minute, ready_minute), ready_at)
        self._waits[minute, ready_minute] = min(known, ready_at)

    def counted(self, minutes: Iterable[datetime]) -> None:
        """Add minutes in which workers counted attempts that the ledger knows no more.

        A worker writes its counts a moment later, perhaps in the next minute.
        """
        known = [*_merged(self._busy.values(), MINUTE)]
        ends = [each.until for each in known]
        for moment in minutes:
            place = bisect_left(ends, moment - MINUTE)
            if place == len(known) or known[place].since >= moment + MINUTE:
                self.ran(number_of(moment), moment, moment + MINUTE)

    def stops(
        self, horizon: datetime, now: datetime, least: timedelta, *, claimable: bool
    ) -> list[Stop]:
        """The outages of at least that length, oldest first.

        `claimable` is whether deliveries wait now that a worker could claim.
        """
        minutes = sorted(self._waits)
        found = []
        for idle in _idle(self._busy.values(), horizon, now, least):
            if idle.goes_on and not claimable:
                continue
            last = now if idle.busy_until is None else idle.busy_until
            first = bisect_left(minutes, (number_of(idle.until), 0))
            behind = bisect_right(minutes, (number_of(last) + 1, 0))
            waits = [self._waits[each] for each in minutes[first:behind]]
            # What could be attempted long before was passed over while others were attempted.
            waits = [each for each in waits if each >= idle.since - least]
            began_at = max(idle.since, min(waits, default=now))
            if idle.until - began_at >= least:
                ended_at = None if idle.goes_on else idle.until
                found.append(Stop(began_at, ended_at, idle.busy_until))
        return found


class Delays:
    """How late the deliveries of one outage were."""

    def __init__(self, stop: Stop, now: datetime) -> None:
        self._stop = stop
        self._now = now
        self._seconds = array("d")
        self._waiting = 0
        self._last: datetime | None = None

    def add(self, late: timedelta, started_at: datetime, *, waits: bool) -> None:
        """Count one."""
        self._seconds.append(late.total_seconds())
        self._waiting += waits
        if not waits:
            self._last = started_at if self._last is None else max(self._last, started_at)

    def report(self) -> Outage:
        """The outage with all that is known."""
        stop, seconds = self._stop, self._seconds
        return Outage(
            began_at=stop.began_at,
            ended_at=stop.ended_at,
            seconds=((stop.ended_at or self._now) - stop.began_at).total_seconds(),
            late=len(seconds),
            waiting=self._waiting,
            largest_late_seconds=max(seconds, default=0.0),
            median_late_seconds=median(seconds) if seconds else 0.0,
            worked_off_at=None if self._waiting else self._last,
        )


def checked_least(value: float | timedelta | str) -> timedelta:
    """The shortest outage to report."""
    seconds = seconds_of("at_least", value)
    if seconds < MINUTE.total_seconds():
        raise InvalidInput("at_least", f"{seconds:g} seconds are too short; give a minute or more")
    return timedelta(seconds=seconds)


def number_of(moment: datetime) -> int:
    """The number of its minute."""
    return (moment - EPOCH) // MINUTE


def _idle(
    busy: Iterable[Busy], horizon: datetime, now: datetime, least: timedelta
) -> Sequence[Idle]:
    """The idle spans of at least that length, oldest first."""
    runs = [*_merged([Busy(horizon, horizon), *busy], least)]
    spans = [Idle(before.until, after.since, after.until) for before, after in pairwise(runs)]
    if now - runs[-1].until >= least:
        return [*spans, Idle(runs[-1].until, now, goes_on=True)]
    return [*spans[:-1], *(msgspec.structs.replace(each, busy_until=None) for each in spans[-1:])]


def _merged(busy: Iterable[Busy], least: timedelta) -> Iterator[Busy]:
    """The times in their order; those with less than that between them become one."""
    present: Busy | None = None
    for each in sorted(busy, key=lambda found: found.since):
        if present is None:
            present = Busy(each.since, each.until)
        elif each.since - present.until >= least:
            yield present
            present = Busy(each.since, each.until)
        else:
            present.until = max(present.until, each.until)
    if present is not None:
        yield present
