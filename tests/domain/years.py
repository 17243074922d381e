"""A model of a yearly schedule that handles each year by itself."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

from duly.domain.time.rules import Yearly

YEARS = range(2020, 2060)


class Oracle:
    """Each year is claimed, due, or neither, by the current rule."""

    def __init__(self, rule: Yearly, now: datetime) -> None:
        self.rule, self.now, self.begun = rule, now, now
        self.due: set[int] = set()
        self.last = 0
        self.missed: datetime | None = None

    def at(self, year: int, rule: Yearly | None = None) -> datetime | None:
        found = (rule or self.rule).of_year(year)
        return None if found is None else found.at

    def open_years(self) -> list[int]:
        return [year for year in YEARS if year > self.last]

    @property
    def upcoming(self) -> tuple[int, datetime] | None:
        found = ((year, self.at(year)) for year in self.open_years() if year not in self.due)
        return next(((year, at) for year, at in found if at is not None and at > self.now), None)

    def wait(self, until: datetime) -> None:
        """Let time pass; the next years become due."""
        while (found := self.upcoming) is not None and found[1] <= until:
            self.due.add(found[0])
            self.now = found[1]
        self.now = until

    def claim(self, years: list[int]) -> None:
        self.due -= set(years)
        self.last = max([self.last, *years])

    def edit(self, rule: Yearly) -> None:
        before, fell_due = self.rule, set(self.due)
        on_books = fell_due | ({self.upcoming[0]} if self.upcoming else set())
        for year in self.open_years():
            at, was = self.at(year, rule), self.at(year, before)
            if year in fell_due:
                if at is not None and at > self.now:
                    self.due.discard(year)
                    self.missed = was
            elif at is not None and at <= self.now:
                today = _day(at, rule.tz) == _day(self.now, rule.tz)
                is_open = year in on_books or at > self.begun
                is_restored = at == self.missed and not any(each > year for each in fell_due)
                if is_restored or (today and is_open):
                    self.due.add(year)
        self.rule = rule


def _day(moment: datetime, tz: str) -> date:
    return moment.astimezone(ZoneInfo(tz)).date()
