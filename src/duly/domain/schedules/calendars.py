"""Calendars as they are stored, and what an edit of one means for the rules that use it."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec import UNSET

from duly.domain.checks import MOST_SHOWN
from duly.domain.moments import EPOCH
from duly.domain.time.business_days import (
    HORIZON,
    BusinessDays,
    LocalDays,
    day_of_number,
)
from duly.domain.time.calendars import weekend_of
from duly.domain.time.cron import pattern
from duly.domain.time.occurrences import Occurrence
from duly.domain.time.rules import At, Cron, Rule, calendar_of, parts_of, with_days
from duly.domain.time.walltimes import derive
from duly.domain.time.zones import zone
from duly.errors import Conflict, InvalidInput, NotFound
from duly.records.calendar import Calendar, ChangedCalendar

INSTANT = timedelta.resolution


class StoredCalendar(msgspec.Struct, frozen=True, kw_only=True):
    """A calendar as it is stored."""

    name: str
    days: BusinessDays
    version: int
    created_at: datetime
    updated_at: datetime

    def record(self) -> Calendar:
        """The calendar as it is shown."""
        return Calendar(
            name=self.name,
            closed=self.days.closed,
            weekend=weekend_of(self.days),
            version=self.version,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )

    def changed(self, change: str, moved: int = 0) -> ChangedCalendar:
        """The calendar after it was set."""
        fields = msgspec.structs.asdict(self.record())
        return ChangedCalendar(**fields, change=change, moved=moved)


class CalendarChanged(Conflict):
    """The calendar of a rule was changed while the rule was stored."""

    def __init__(self, name: str) -> None:
        super().__init__(f"calendar {name!r} was changed at the same time; try again")


def no_calendar(name: str) -> NotFound:
    """The error for a name that no calendar has."""
    return NotFound("calendar", name, "duly calendars list shows what there is")


def unknown_calendar(name: str) -> InvalidInput:
    """The error for a rule whose calendar does not exist."""
    return InvalidInput("calendar", f"no calendar {name!r}; set it first, or import it from a file")


def in_use(name: str, schedules: list[str]) -> Conflict:
    """The error for a calendar that cannot be removed."""
    shown = ", ".join(schedules[:MOST_SHOWN])
    more = ", and more" if len(schedules) > MOST_SHOWN else ""
    return Conflict(f"calendar {name!r} is used by {shown}{more}; change these schedules first")


def check_moments(rule: Rule, now: datetime) -> None:
    """Refuse a rule of which its calendar leaves nothing."""
    name = calendar_of(rule)
    if name is None or isinstance(rule, At):
        return
    found = rule.next_after(now)
    if found is None or found > now + HORIZON:
        raise InvalidInput(
            "calendar",
            f"calendar {name!r} leaves no moment of {rule.describe()!r} in 50 years; move them to "
            "the next or previous business day, or change the rule",
        )


def only_days_differ(new: Rule, old: Rule) -> bool:
    """Whether two rules differ in the days of their calendar, and in nothing else."""
    return new != old and with_days(new, UNSET) == with_days(old, UNSET)


def has_come(new: Rule, old: Rule, found: Occurrence, now: datetime) -> bool:
    """Whether everything that comes at a moment by the new days has come by the old ones.

    Else an edit of a calendar would repeat what was moved to an earlier day, or was open before.
    """
    pairs = zip(parts_of(new), parts_of(old), strict=True)
    came = [_has_come(*each, found, now) for each in pairs if _has_moment(each[0], found.at)]
    return bool(came) and all(came)


def _has_moment(part: Rule, moment: datetime) -> bool:
    return part.next_after(moment - INSTANT) == moment


def _has_come(new: Rule, old: Rule, found: Occurrence, now: datetime) -> bool:
    if not isinstance(new, Cron) or not isinstance(old, Cron):
        return False
    if new.except_ is UNSET or old.except_ is UNSET:
        return False
    days, wall = pattern(new.expression).days, found.at.astimezone(zone(new.tz))
    day = LocalDays(new.tz).day_of(found.at - EPOCH)
    sources = filter(days.matches, new.except_.known.sources(day, new.except_.move))
    before = [old.except_.known.moved(each, old.except_.move) for each in sources]
    return bool(before) and all(_is_past(each, wall, new.tz, now) for each in before)


def _is_past(day: int | None, wall: datetime, tz: str, now: datetime) -> bool:
    if day is None:
        return False
    then = derive(datetime.combine(day_of_number(day), wall.time()), tz, identity="")
    return then is not None and then.at <= now
