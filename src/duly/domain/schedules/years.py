"""Decides what an edit of a yearly schedule means for the years that are not done.

A local year is done when its occurrence is claimed. Until then an edit moves it within the year:

| the year's moment under the new rule | effect on the year                                      |
|--------------------------------------|---------------------------------------------------------|
| is in the future                     | it is the next one                                      |
| is past, and the year was due        | it stays due, however late: an outage missed it         |
| is past, but on the present day      | it is due now                                           |
| is past, by an edit of the calendar  | it is due now: only the business day is another         |
| is past, and on another day          | it is passed over: a birthday greeting on another day   |
|                                      | would be wrong. Reversing the edit makes it the next    |
|                                      | one again, until a later year is due                    |
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec
from msgspec import UNSET

from duly.domain.schedules.planning import Drop, NewId, Plan, Planned
from duly.domain.schedules.schedule import (
    Occasion,
    ScheduleProgress,
    ScheduleTiming,
    StoredSchedule,
    due_at,
    encode_occasion,
    zone_mark,
)
from duly.domain.time.occurrences import Occurrence
from duly.domain.time.walltimes import LAST_YEAR, Yearly
from duly.domain.time.zones import zone


class Edit:
    """One edit at one moment of a yearly schedule that stays yearly.

    `untouched` means that the stored next occurrence is not claimed; `late` is the id of the
    delivery before it, if that is not claimed either.
    """

    def __init__(
        self,
        schedule: StoredSchedule,
        timing: ScheduleTiming,
        now: datetime,
        *,
        untouched: bool,
        late: str | None,
    ) -> None:
        assert isinstance(schedule.timing.rule, Yearly)
        assert isinstance(timing.rule, Yearly)
        self._name = schedule.name
        self._old_progress = schedule.progress
        self._old_timing, self._old_rule = schedule.timing, schedule.timing.rule
        self._timing, self._rule = timing, timing.rule
        self._has_same_days = _without_calendar(timing.rule) == _without_calendar(self._old_rule)
        self._now = now
        self._pending = self._unclaimed(untouched, late)
        self._done = self._last_done(untouched)

    def plan(self, new_id: NewId) -> Plan:
        """The plan, which decides all years up to now: the planner has nothing to catch up on."""
        found = list(self._within_max_runs(self._wanted()))
        kept, dropped = self._assigned([int(each.identity) for each in found])
        planned = [self._planned(kept.get(int(each.identity)) or new_id(), each) for each in found]
        ids = set(self._pending.values())
        return Plan(
            progress=self._progress(found, planned),
            move=[each for each in planned if each.id in ids],
            make=[each for each in planned if each.id not in ids],
            drop=[(id, Drop.WITHDRAWN) for id in dropped],
        )

    def _unclaimed(self, untouched: bool, late: str | None) -> dict[int, str]:
        """The deliveries that can still be moved, by year."""
        old, fired, found = self._old_progress, self._fired(), dict[int, str]()
        if late is not None and fired is not None and (untouched or old.made is None):
            found[fired] = late
        if untouched and old.made is not None and old.made_id is not None:
            found[int(old.made)] = old.made_id
        return found

    def _last_done(self, untouched: bool) -> int | None:
        if self._old_progress.made is not None and not untouched:
            return int(self._old_progress.made)
        fired = self._fired()
        return fired - 1 if fired is not None and fired in self._pending else fired

    def _fired(self) -> int | None:
        """The last fired year; None if the last occurrence was that of another kind of rule."""
        fired = self._old_progress.fired
        return int(fired) if fired is not None and fired.isdecimal() else None

    def _wanted(self) -> Iterator[Occurrence]:
        """The years that are due now, and the next one."""
        first = self._old_progress.fired_at.year - 1 if self._done is None else self._done + 1
        for year in range(first, LAST_YEAR + 1):
            found = self._rule.of_year(year) or self._old_occurrence(year)
            if found is None or found.at < (self._timing.starts_at or found.at):
                continue
            if found.at > (self._timing.ends_at or found.at):
                return
            if found.at > self._now or self._is_due(year, found):
                yield found
            if found.at > self._now:
                return

    def _old_occurrence(self, year: int) -> Occurrence | None:
        """The old occurrence of a year that was due and that the new rule omits: it stays due."""
        moment = self._fell_due(year)
        return None if moment is None else Occurrence(str(year), moment)

    def _is_due(self, year: int, found: Occurrence) -> bool:
        if self._fell_due(year) is not None or self._is_restored(year, found):
            return True
        # A moment before the schedule was created or resumed was not missed.
        is_open = year in self._pending or found.at > self._old_progress.fired_at
        is_same_day = year in self._pending and self._has_same_days
        return is_same_day or (is_open and self._is_today(found.at))

    def _is_restored(self, year: int, found: Occurrence) -> bool:
        """Whether the edit reverses one that passed over this year, and no later year was due."""
        later = range(year + 1, self._now.year + 2)
        return found.at == self._old_progress.missed_at and not any(map(self._fell_due, later))

    def _is_today(self, moment: datetime) -> bool:
        tz = zone(self._rule.tz)
        return moment.astimezone(tz).date() == self._now.astimezone(tz).date()

    def _fell_due(self, year: int) -> datetime | None:
        """The moment at which the year was due before the edit; None if it was not, or is done."""
        moment = self._moment_before(year)
        until = min(self._now, self._old_timing.ends_at or self._now)
        return moment if moment is not None and moment <= until else None

    def _moment_before(self, year: int) -> datetime | None:
        """When the year was due before the edit; None if it was before `made` and not pending."""
        made = None if self._old_progress.made is None else int(self._old_progress.made)
        if year == made:
            return self._old_progress.made_at
        found = self._old_rule.of_year(year)
        if year in self._pending:
            return self._old_progress.fired_at if found is None else found.at
        return found.at if found is not None and made is not None and year > made else None

    def _within_max_runs(self, found: Iterator[Occurrence]) -> Iterator[Occurrence]:
        """The occurrences that `max_runs` still allows."""
        if self._timing.max_runs is None:
            return found
        left = self._timing.max_runs - self._old_progress.runs + len(self._pending)
        return (each for each, _ in zip(found, range(left), strict=False))

    def _assigned(self, years: list[int]) -> tuple[dict[int, str], list[str]]:
        """The delivery of each year, and the deliveries to drop.

        A delivery keeps its year if it can, so that no two ever have the same year.
        """
        kept = {year: id for year, id in self._pending.items() if year in years}
        free = [id for year, id in self._pending.items() if year not in years]
        for year in years:
            if year not in kept and free:
                kept[year] = free.pop(0)
        return kept, free

    def _planned(self, id: str, found: Occurrence) -> Planned:
        occasion = Occasion(self._name, found.at, 0, self._timing.overlap)
        due = due_at(self._name, self._timing.jitter, found)
        return Planned(id, found.identity, due, encode_occasion(occasion))

    def _progress(self, found: list[Occurrence], planned: list[Planned]) -> ScheduleProgress:
        old, upcoming = (
            self._old_progress,
            found[-1] if found and found[-1].at > self._now else None,
        )
        due = found if upcoming is None else found[:-1]
        done = old.fired if self._done is None else str(self._done)
        zone_name, zone_hash, zone_version = zone_mark(self._rule)
        return msgspec.structs.replace(
            old,
            fired=due[-1].identity if due else done,
            made=None if upcoming is None else upcoming.identity,
            made_at=None if upcoming is None else upcoming.at,
            made_id=None if upcoming is None else planned[-1].id,
            next_at=None if upcoming is None else upcoming.at,
            runs=old.runs - len(self._pending) + len(found),
            missed_at=self._missed_at(due, upcoming),
            zone=zone_name,
            zone_hash=zone_hash,
            zone_version=zone_version,
        )

    def _missed_at(self, due: list[Occurrence], upcoming: Occurrence | None) -> datetime | None:
        """The due moment of the year that this or an earlier edit passed over."""
        # A year may have become due while no planner was running to make its delivery.
        open_years = {*self._pending, *(() if upcoming is None else (int(upcoming.identity),))}
        moved = open_years - {int(each.identity) for each in due}
        found = (self._fell_due(year) for year in sorted(moved))
        return next((each for each in found if each is not None), self._old_progress.missed_at)


def _without_calendar(rule: Yearly) -> Yearly:
    return msgspec.structs.replace(rule, except_=UNSET)
