"""When a cron expression runs in a zone, including at clock changes.

An expression is fixed-time if second, minute and hour do not start with `*`, else wildcard.
R3, clock jumps forward: fixed times inside the gap run once, at the first instant after it; a
wildcard expression does not. R4, clock jumps back: fixed times run the first time only; a wildcard
expression runs at every match. R5: the next run is always strictly later.
"""

from __future__ import annotations

from functools import lru_cache

from duly.domain.time.cron import pattern
from duly.domain.time.cron_patterns import Pattern
from duly.domain.time.offsets import BEGINNING, DAY, END, Stretch, offsets


class Runs:
    """The instants at which a pattern runs in a zone, as whole seconds since 1970 in UTC."""

    def __init__(self, pattern: Pattern, zone_name: str, *, makes_up: bool) -> None:
        self._pattern = pattern
        self._offsets = offsets(zone_name)
        self._is_fixed = pattern.fields.is_fixed
        self._makes_up = makes_up and self._is_fixed

    def next(self, first: int) -> int | None:
        """The first run at or after `first`."""
        first = max(first, BEGINNING)
        if first >= END:
            return None
        found = self._next(first)
        return found if found < END else None

    def _next(self, first: int) -> int:
        stretch = self._offsets.at(first)
        if first == stretch.start and self._runs_after_gap(stretch):
            return first
        searched = self._first_local(stretch, first)
        wanted = self._pattern.next(searched)
        while wanted >= stretch.end + stretch.offset:
            if wanted >= END + DAY:
                return END
            stretch = self._following(stretch, searched, wanted)
            opening = stretch.start + stretch.offset
            in_gap = wanted < opening
            if in_gap and self._makes_up:
                return stretch.start
            if in_gap or (opening < stretch.shown and not self._is_fixed):
                searched = opening
                wanted = self._pattern.next(searched)
        return wanted - stretch.offset

    def _following(self, stretch: Stretch, searched: int, wanted: int) -> Stretch:
        """The next stretch, or a later one if no match can be before it.

        There is no match from `searched` up to `wanted`. A jump back may repeat local times before
        `searched`, but no clock jumps by more than a day.
        """
        closing = stretch.end + stretch.offset
        if closing - searched < 2 * DAY:
            return self._offsets.at(stretch.end)
        return self._offsets.at(max(stretch.end, wanted - stretch.offset - 2 * DAY))

    def _first_local(self, stretch: Stretch, first: int) -> int:
        local = first + stretch.offset
        return max(local, stretch.shown) if self._is_fixed else local

    def _runs_after_gap(self, stretch: Stretch) -> bool:
        """Whether a fixed time in the gap before the stretch runs at its start."""
        if not self._makes_up or stretch.shown >= stretch.opening:
            return False
        return self._pattern.next(stretch.shown) < stretch.opening

    def count(self, first: int, end: int) -> int:
        """The number of runs from `first` up to `end`, computed without visiting each."""
        first, end = max(first, BEGINNING), min(end, END)
        return sum(
            self._count(stretch, first, end) for stretch in self._offsets.through(first, end)
        )

    def _count(self, stretch: Stretch, first: int, end: int) -> int:
        low = self._first_local(stretch, max(first, stretch.start))
        high = min(end, stretch.end) + stretch.offset
        total = self._pattern.count(low, high) if low < high else 0
        if first <= stretch.start and self._runs_after_gap(stretch):
            total += self.is_shifted(stretch.start)
        return total

    def last(self, first: int, end: int) -> int | None:
        """The last run from `first` up to `end`, by binary search."""
        latest = self._next_before(end, first)
        if latest is None or self._next_before(end, latest + 1) is None:
            return latest
        bound = end
        while bound - latest > 1:
            middle = (latest + bound + 1) // 2
            later = self._next_before(end, middle)
            if later is None:
                bound = middle
            else:
                latest = later
        return latest

    def _next_before(self, end: int, first: int) -> int | None:
        found = self.next(first)
        return found if found is not None and found < end else None

    def is_shifted(self, run: int) -> bool:
        """Whether this run replaces times in a gap and is no match itself."""
        return not self._pattern.matches(run + self._offsets.at(run).offset)


@lru_cache(maxsize=4096)
def runs(expression: str, zone_name: str, *, makes_up: bool) -> Runs:
    """The cached runs of an expression in a zone."""
    return Runs(pattern(expression), zone_name, makes_up=makes_up)
