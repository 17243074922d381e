"""The UTC offsets of a zone over time, as stretches of constant offset.

Instants are whole seconds since 1970 in UTC; local times are seconds since 1970 on the local clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple

from duly.domain.checks import EARLIEST, LATEST
from duly.domain.moments import EPOCH
from duly.domain.time.zones import zone

SECOND = timedelta(seconds=1)
DAY = 86_400
BEGINNING, END = (EARLIEST - EPOCH) // SECOND, (LATEST - EPOCH) // SECOND
"""The first instant that is supported, and the one after the last."""

ERA = 1 << 25
STRIDE = 4 * DAY
"""The step of the search for changes; no zone has ever had two changes within it."""


class Stretch(NamedTuple):
    """A period from `start` up to `end` in which local time is the instant plus `offset`.

    `shown` is the local time that the clock had reached just before `start`: earlier than the local
    time at `start` if the clock jumped forward, later if it jumped back.
    """

    start: int
    end: int
    offset: int
    shown: int

    @property
    def opening(self) -> int:
        """The local time at `start`."""
        return self.start + self.offset


class Offsets:
    """The stretches of one zone, computed on first use."""

    def __init__(self, name: str) -> None:
        self._zone = zone(name)
        self._eras: dict[int, tuple[Stretch, ...]] = {}
        fixed = self._zone.utcoffset(None)
        offset = 0 if fixed is None else fixed // SECOND
        self._only = None if fixed is None else Stretch(-END, 2 * END, offset, offset - END)

    def at(self, instant: int) -> Stretch:
        """The stretch that contains the instant; a stretch is split at the boundaries of eras."""
        if self._only is not None:
            return self._only
        number = instant // ERA
        era = self._eras.get(number) or self._compute_era(number)
        for stretch in era:
            if instant < stretch.end:
                return stretch
        raise AssertionError(f"{instant} is outside its own era")

    def through(self, first: int, end: int) -> Iterator[Stretch]:
        """The stretches that contain the instants from `first` up to `end`."""
        while first < end:
            stretch = self.at(first)
            yield stretch
            first = stretch.end

    def _compute_era(self, number: int) -> tuple[Stretch, ...]:
        start, end = number * ERA, (number + 1) * ERA
        found = [_clip(each, start) for each in self._stretches(start, end) if each.end > start]
        self._eras[number] = tuple(found)
        return self._eras[number]

    def _stretches(self, start: int, end: int) -> Iterator[Stretch]:
        # Starts a stride early, so that a jump back just before the era still affects `shown`.
        begin = max(start - STRIDE, BEGINNING)
        offset = self._offset(begin)
        shown = begin + offset
        for change in self._changes(begin, end - 1):
            yield Stretch(begin, change, offset, shown)
            begin, shown, offset = change, change + offset, self._offset(change)
        yield Stretch(begin, end, offset, shown)

    def _changes(self, start: int, last: int) -> Iterator[int]:
        before, old = start, self._offset(start)
        while before < last:
            after = min(before + STRIDE, last)
            new = self._offset(after)
            if new != old:
                yield self._change(before, after)
            before, old = after, new

    def _change(self, before: int, after: int) -> int:
        old = self._offset(before)
        while after - before > 1:
            middle = (before + after) // 2
            if self._offset(middle) == old:
                before = middle
            else:
                after = middle
        return after

    def _offset(self, instant: int) -> int:
        offset = datetime.fromtimestamp(instant, self._zone).utcoffset()
        return 0 if offset is None else offset.days * DAY + offset.seconds


def _clip(stretch: Stretch, start: int) -> Stretch:
    if stretch.start >= start:
        return stretch
    shown = max(stretch.shown, start + stretch.offset)
    return stretch._replace(start=start, shown=shown)


@cache
def offsets(name: str) -> Offsets:
    """The cached offsets of a zone."""
    return Offsets(name)
