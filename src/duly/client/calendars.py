"""The calendars of a server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from duly.client.requester import Requester
from duly.domain import checks
from duly.domain.time.calendars import checked_days, weekend_of
from duly.records.calendar import (
    DEFAULT_WEEKEND,
    Calendar,
    CalendarSummary,
    ChangedCalendar,
    Closed,
    Weekday,
)

ICS = "text/calendar"


class Calendars:
    """The calendars of one server."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def set(
        self,
        name: str,
        closed: Closed = (),
        *,
        weekend: Iterable[Weekday | str] = DEFAULT_WEEKEND,
        version: int | None = None,
    ) -> ChangedCalendar:
        """Create or replace a calendar: its closed dates, with or without labels, and its weekend.

        Schedules that use it change with it, in one transaction.
        """
        days = checked_days(closed, weekend)
        body = {"closed": days.closed, "weekend": weekend_of(days)}
        return await self._requester.put(ChangedCalendar, *_place(name), body=body, version=version)

    async def import_ics(
        self, name: str, data: bytes | str, *, version: int | None = None
    ) -> ChangedCalendar:
        """Create a calendar, or replace its closed dates, with those of an iCalendar file.

        The weekend stays as it is; that of a new calendar is Saturday and Sunday.
        """
        body = data.encode() if isinstance(data, str) else data
        return await self._requester.put(
            ChangedCalendar, *_place(name), body=body, version=version, media=ICS
        )

    async def get(self, name: str) -> Calendar:
        """One calendar with all its closed dates, or NotFound."""
        return await self._requester.get(Calendar, *_place(name))

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[CalendarSummary]:
        """Calendars by name; `after` is the last name of the previous page."""
        start = checks.checked_start("after", after) or None
        return await self._requester.listed(CalendarSummary, "calendars", limit=limit, cursor=start)

    async def remove(self, name: str, *, version: int | None = None) -> None:
        """Remove a calendar; Conflict if schedules use it."""
        await self._requester.delete(*_place(name), version=version)


def _place(name: str) -> tuple[str, str]:
    return "calendars", checks.checked_name("name", name)
