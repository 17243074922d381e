"""Calendars: set, imported, listed and removed; and the days that rules get from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import date, datetime
from typing import TypeVar

import msgspec

from duly.domain import checks
from duly.domain.schedules.calendars import CalendarChanged, StoredCalendar, unknown_calendar
from duly.domain.schedules.revisions import Revision, Unclaimed, recompute
from duly.domain.schedules.schedule import ScheduleTiming, StoredSchedule
from duly.domain.time import ics
from duly.domain.time.business_days import BusinessDays
from duly.domain.time.calendars import checked_days, weekend_of
from duly.domain.time.rules import calendar_of, with_days
from duly.errors import NOT_YET, NotFound, Outdated
from duly.ports import Chance, Clock, Store
from duly.records.calendar import (
    DEFAULT_WEEKEND,
    Calendar,
    CalendarSummary,
    ChangedCalendar,
    Closed,
    Weekday,
)

TRIES = 10
"""How often a rule is stored again if its calendar is changed meanwhile."""
Result = TypeVar("Result")
Timings = Sequence[ScheduleTiming]
Found = Sequence[StoredCalendar]


class Calendars:
    """The calendars of one namespace; the audit trail names `actor`."""

    def __init__(self, store: Store, clock: Clock, chance: Chance, actor: str = "python") -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self.actor = actor

    async def set(
        self,
        name: str,
        closed: Closed = (),
        *,
        weekend: Iterable[Weekday | str] = DEFAULT_WEEKEND,
        version: int | None = None,
    ) -> ChangedCalendar:
        """Create or replace a calendar: its closed dates, with or without labels, and its weekend.

        Schedules that use it change with it, in one transaction. Outdated if it is not at the
        given `version`, which is 0 for a new calendar.
        """
        days = checked_days(closed, weekend)
        return await self._set(name, version, lambda _: days)

    async def import_ics(
        self, name: str, data: bytes | str, *, version: int | None = None
    ) -> ChangedCalendar:
        """Create a calendar, or replace its closed dates, with those of an iCalendar file.

        The weekend stays as it is; that of a new calendar is Saturday and Sunday.
        """
        closed = ics.closed_dates(data, self._today())

        def decide(was: StoredCalendar | None) -> BusinessDays:
            return checked_days(closed, DEFAULT_WEEKEND if was is None else weekend_of(was.days))

        return await self._set(name, version, decide)

    def _today(self) -> date:
        return self._clock.now().date()

    async def _set(
        self,
        name: str,
        version: int | None,
        decide: Callable[[StoredCalendar | None], BusinessDays],
    ) -> ChangedCalendar:
        name = checks.checked_name("name", name)

        def checked(was: StoredCalendar | None) -> BusinessDays:
            _check_version(was, name, version)
            return decide(was)

        found, change, moved = await self._store.calendars.set(
            name, checked, self._recompute, self.actor
        )
        if moved:
            self._store.wakeups.hint()
        return found.changed(change, moved)

    def _recompute(
        self, schedule: StoredSchedule, days: BusinessDays, now: datetime
    ) -> Callable[[Unclaimed], Revision] | None:
        return recompute(schedule, days, now, self._chance.delivery_id)

    async def get(self, name: str) -> Calendar:
        """One calendar with all its closed dates, or NotFound."""
        return (await self._store.calendars.get(checks.checked_name("name", name))).record()

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[CalendarSummary]:
        """Calendars by name; `after` is the last name of the previous page."""
        start, limit = checks.checked_start("after", after), checks.checked_limit(limit)
        return [_summary(*each) for each in await self._store.calendars.page(start, limit)]

    async def remove(self, name: str, *, version: int | None = None) -> Calendar:
        """Remove a calendar; Conflict if schedules use it."""
        name = checks.checked_name("name", name)
        removed = await self._store.calendars.remove(
            name, self.actor, lambda was: _check_version(was, name, version)
        )
        return removed.record()


def _summary(found: StoredCalendar, schedules: int) -> CalendarSummary:
    return CalendarSummary(
        name=found.name,
        weekend=weekend_of(found.days),
        dates=len(found.days.closed),
        last_date=max(found.days.closed, default=None),
        schedules=schedules,
        updated_at=found.updated_at,
    )


def _check_version(was: StoredCalendar | None, name: str, version: int | None) -> None:
    present = None if was is None else was.version
    if version is not None and version != (present or NOT_YET):
        raise Outdated("calendar", name, present, version)


async def with_calendars(
    store: Store, timings: Timings, work: Callable[[Timings, Found], Awaitable[Result]]
) -> Result:
    """Do something with timings whose rules have the days of their calendars.

    `work` gets the calendars too, and is repeated if one is changed meanwhile. InvalidInput if one
    does not exist.
    """
    names = sorted(filter(None, {calendar_of(each.rule) for each in timings}))
    for tries_left in reversed(range(TRIES)):
        found = [await _found(store, each) for each in names]
        days = {each.name: each.days for each in found}
        try:
            return await work([_on(each, days) for each in timings], found)
        except CalendarChanged:
            if not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


async def _found(store: Store, name: str) -> StoredCalendar:
    try:
        return await store.calendars.get(name)
    except NotFound:
        raise unknown_calendar(name) from None


def _on(timing: ScheduleTiming, days: dict[str, BusinessDays]) -> ScheduleTiming:
    name = calendar_of(timing.rule)
    if name is None:
        return timing
    return msgspec.structs.replace(timing, rule=with_days(timing.rule, days[name]))
