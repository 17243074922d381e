"""Rules without an end: `Cron`, by clock and calendar, and `Every`, by elapsed time."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal, get_args

import msgspec
from msgspec import UNSET

from duly.domain.checks import EARLIEST, LATEST, LONGEST_WAIT, checked_moment
from duly.domain.moments import EPOCH
from duly.domain.time import descriptions
from duly.domain.time.business_days import DaysExcept, OnDays, OpenMoments
from duly.domain.time.cron import normal, pattern
from duly.domain.time.cron_patterns import Pattern
from duly.domain.time.cron_runs import Runs, runs
from duly.domain.time.occurrences import Occurrence, instant_text, is_in_time, since_epoch
from duly.domain.time.zones import checked_zone
from duly.errors import InvalidInput, quoted

DstGap = Literal["run", "skip"]
MILLISECOND = timedelta(milliseconds=1)
LAST_MOMENT = LATEST - timedelta(microseconds=1)


class Cron(OnDays, frozen=True, tag="cron", dict=True):
    """The times that a cron expression matches in a zone.

    `dst_gap`: whether a time that the clock skips runs after the gap or is dropped.
    """

    expression: str
    tz: str = "UTC"
    dst_gap: DstGap = "run"

    def __post_init__(self) -> None:
        if normal(self.expression) != self.expression:
            raise InvalidInput("expression", f"write {normal(self.expression)!r}")
        pattern(self.expression)
        checked_zone(self.tz)
        if self.dst_gap not in get_args(DstGap):
            raise InvalidInput("dst_gap", f"{quoted(self.dst_gap)} is neither 'run' nor 'skip'")
        self._refuse_zone()

    @property
    def zone_name(self) -> str:
        """The zone in which the expression is evaluated."""
        return self.tz

    def describe(self) -> str:
        """Such as "at 09:00 on Monday, Europe/Oslo"."""
        fields = pattern(self.expression).fields
        drops = fields.is_fixed and self.dst_gap == "skip"
        gap = " (dropped when the clock skips it)" if drops else ""
        return f"{descriptions.of_cron(fields)}{gap}, {self.tz}{self.except_words}"

    def next_after(self, moment: datetime) -> datetime | None:
        """The first moment strictly later than the given one, or None when there is none."""
        found = self._runs.next(_second_after(since_epoch(moment, "moment")))
        return None if found is None else EPOCH + timedelta(seconds=found)

    def count(self, after: datetime, until: datetime) -> int:
        """How many occurrences lie after the first moment and not after the second.

        Matches are computed by whole days, so a run every second costs no more than one a day.
        """
        return self._runs.count(*_seconds_between(after, until))

    def last(self, after: datetime, until: datetime) -> Occurrence | None:
        """The latest occurrence after the first moment and not after the second."""
        return self._occurrence(self._runs.last(*_seconds_between(after, until)))

    def _next(self, after: timedelta) -> Occurrence | None:
        return self._occurrence(self._runs.next(_second_after(after)))

    def _occurrence(self, run: int | None) -> Occurrence | None:
        if run is None:
            return None
        at = EPOCH + timedelta(seconds=run)
        return Occurrence(instant_text(at), at, self._runs.is_shifted(run))

    @cached_property
    def _runs(self) -> Runs:
        makes_up = self.dst_gap == "run"
        if self.except_ is UNSET:
            return runs(self.expression, self.tz, makes_up=makes_up)
        usual = pattern(self.expression)
        days = DaysExcept(usual.days, self.except_.known, self.except_.move)
        return Runs(Pattern(usual.fields, days), self.tz, makes_up=makes_up)


class Every(OnDays, frozen=True, tag="every", dict=True):
    """The moments `anchor + k * interval`, for every whole k: elapsed time, without drift.

    The anchor is only the phase, not the start of a schedule.
    """

    interval: timedelta
    anchor: datetime = EPOCH

    def __post_init__(self) -> None:
        if not timedelta(seconds=1) <= self.interval <= LONGEST_WAIT:
            raise InvalidInput(
                "interval",
                f"{descriptions.of_interval(self.interval)} is not from 1 second to 100 years",
            )
        if self.interval % MILLISECOND:
            raise InvalidInput("interval", "give whole milliseconds")
        checked_moment("anchor", self.anchor)
        self._check_except()

    def _check_except(self) -> None:
        if self.except_ is UNSET:
            return
        if self.except_.tz is not None:
            checked_zone(self.except_.tz)
        if self.except_.move != "skip":
            raise InvalidInput("move", "an interval is left out on closed days; give skip")

    @property
    def zone_name(self) -> str | None:
        """The zone of its business days, if it has any."""
        return None if self.except_ is UNSET else self.except_.tz or "UTC"

    def describe(self) -> str:
        """Such as "every 90 seconds"."""
        text = f"every {descriptions.of_interval(self.interval)}"
        if self.anchor != EPOCH:
            text += f" from {descriptions.of_instant(self.anchor)}"
        zone = "" if self.zone_name is None else f", {self.zone_name}"
        return f"{text}{zone}{self.except_words}"

    def count(self, after: datetime, until: datetime) -> int:
        """How many occurrences lie after the first moment and not after the second."""
        if self._open is not None:
            return self._open.count(after, until)
        low, high = since_epoch(after, "after"), since_epoch(until, "until")
        low = max(low, EARLIEST - EPOCH - timedelta.resolution)
        return max(0, self._index(min(high, LAST_MOMENT - EPOCH)) - self._index(low))

    def last(self, after: datetime, until: datetime) -> Occurrence | None:
        """The latest occurrence after the first moment and not after the second."""
        if self._open is not None:
            return self._open.last(after, until)
        if not self.count(after, until):
            return None
        return self._occurrence(self._index(min(since_epoch(until, "until"), LAST_MOMENT - EPOCH)))

    @cached_property
    def _open(self) -> OpenMoments | None:
        if self.except_ is UNSET:
            return None
        plain = msgspec.structs.replace(self, except_=UNSET)
        return OpenMoments(plain, self.except_.known, self.zone_name or "UTC")

    def _next(self, after: timedelta) -> Occurrence | None:
        if self._open is not None:
            return self._open.next(after)
        if after >= LATEST - EPOCH:
            return None
        return self._occurrence(self._index(max(after, -timedelta.resolution)) + 1)

    def _index(self, until: timedelta) -> int:
        """The largest k whose moment is not after `until`."""
        return (until - (self.anchor - EPOCH)) // self.interval

    def _occurrence(self, index: int) -> Occurrence | None:
        at = self.anchor + index * self.interval
        return Occurrence(instant_text(at), at) if is_in_time(at) else None


def _seconds_between(after: datetime, until: datetime) -> tuple[int, int]:
    first = _second_after(since_epoch(after, "after"))
    return first, _second_after(since_epoch(until, "until"))


def _second_after(since: timedelta) -> int:
    return since.days * 86_400 + since.seconds + 1
