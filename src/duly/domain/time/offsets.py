"""A zone's clock as stretches of one offset each: what it shows at an instant, and where it jumps.

Instants are whole seconds since 1970 in UTC, local times the same count of what the clock shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

from duly.domain.checks import EARLIEST, LATEST
from duly.domain.time.zones import zone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DAY = 86_400
BEGINNING, END = (EARLIEST - EPOCH) // SECOND, (LATEST - EPOCH) // SECOND
"""The first instant that is looked at, and the one at which time ends."""

ERA = 1 << 25
STRIDE = 4 * DAY
"""How far apart a zone is probed for changes; no zone has ever made two within that time."""


class Stretch(NamedTuple):
    """From `start` up to `end`, the clock shows the instant plus `offset`.

    `shown` is what the clock had reached just before: less than what it shows at the start after
    a jump forward, more after a jump back.
    """

    start: int
    end: int
    offset: int
    shown: int

    @property
    def opening(self) -> int:
        """What the clock shows at the start."""
        return self.start + self.offset


class Offsets:
    """The stretches of one zone, found when they are first asked for."""

    def __init__(self, name: str) -> None:
        self._zone = zone(name)
        self._eras: dict[int, tuple[Stretch, ...]] = {}
        fixed = self._zone.utcoffset(None)
        offset = 0 if fixed is None else fixed // SECOND
        self._only = None if fixed is None else Stretch(-END, 2 * END, offset, offset - END)

    def at(self, instant: int) -> Stretch:
        """The stretch that holds the instant; one that crosses from era to era comes in parts."""
        if self._only is not None:
            return self._only
        number = instant // ERA
        era = self._eras.get(number) or self._explore(number)
        for stretch in era:
            if instant < stretch.end:
                return stretch
        raise AssertionError(f"{instant} is outside its own era")

    def through(self, first: int, end: int) -> Iterator[Stretch]:
        """The stretches that the instants from `first` up to `end` lie in."""
        while first < end:
            stretch = self.at(first)
            yield stretch
            first = stretch.end

    def _explore(self, number: int) -> tuple[Stretch, ...]:
        start, end = number * ERA, (number + 1) * ERA
        found = [_clip(each, start) for each in self._stretches(start, end) if each.end > start]
        self._eras[number] = tuple(found)
        return self._eras[number]

    def _stretches(self, start: int, end: int) -> Iterator[Stretch]:
        # A stride early, so that a jump back just before the era is still remembered in it.
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
    """The zone's stretches, shared by all who ask."""
    return Offsets(name)
