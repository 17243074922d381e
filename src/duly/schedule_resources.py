"""The resources about schedules as protocols, like those in `resources`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol, Unpack

from duly.domain.time.rules import Rule
from duly.records.calendar import (
    DEFAULT_WEEKEND,
    Calendar,
    CalendarSummary,
    ChangedCalendar,
    Closed,
    Weekday,
)
from duly.records.dead_letter import BulkProgress
from duly.records.schedule import (
    DeclaredSchedule,
    OrphanedSchedule,
    RuleExplanation,
    Schedule,
    ScheduleFilterKeywords,
    ScheduleKeywords,
    ScheduleSummary,
    UpcomingRun,
)
from duly.records.target import Target


class Schedules(Protocol):
    """Rules that create deliveries."""

    async def declare(
        self,
        name: str,
        rule: Rule,
        target: Target,
        payload: Any = None,
        *,
        version: int | None = None,
        **given: Unpack[ScheduleKeywords],
    ) -> DeclaredSchedule: ...
    async def get(self, name: str) -> Schedule: ...
    async def list(
        self, *, after: str = "", limit: int = 50, **wanted: Unpack[ScheduleFilterKeywords]
    ) -> Sequence[ScheduleSummary]: ...
    async def pause(self, name: str, reason: str | None = None) -> Schedule: ...
    async def resume(self, name: str, *, from_pause: bool = False) -> Schedule: ...
    async def count(
        self,
        *,
        names: Sequence[str] = (),
        text: str | None = None,
        until: datetime | None = None,
        paused: bool = False,
    ) -> int: ...
    def pause_all(
        self,
        *,
        names: Sequence[str] = (),
        text: str | None = None,
        until: datetime | None = None,
        reason: str | None = None,
    ) -> AsyncIterator[BulkProgress]: ...
    def resume_all(
        self,
        *,
        names: Sequence[str] = (),
        text: str | None = None,
        until: datetime | None = None,
        from_pause: bool = False,
    ) -> AsyncIterator[BulkProgress]: ...
    async def remove(self, name: str, *, version: int | None = None) -> Schedule | None: ...
    async def orphans(self, *, after: str = "", limit: int = 50) -> Sequence[OrphanedSchedule]: ...
    async def remove_orphans(self, names: Sequence[str] | None = None) -> Sequence[str]: ...
    async def trigger(self, name: str) -> str: ...
    async def preview(self, name: str, n: int = 5) -> Sequence[UpcomingRun]: ...
    async def explain(self, rule: Rule, n: int = 5) -> RuleExplanation: ...
    async def count_backfill(self, name: str, start: datetime, end: datetime) -> int: ...
    def backfill(self, name: str, start: datetime, end: datetime) -> AsyncIterator[int]: ...


class Calendars(Protocol):
    """The closed days of rules, by name."""

    async def set(
        self,
        name: str,
        closed: Closed = (),
        *,
        weekend: Iterable[Weekday | str] = DEFAULT_WEEKEND,
        version: int | None = None,
    ) -> ChangedCalendar: ...
    async def import_ics(
        self, name: str, data: bytes | str, *, version: int | None = None
    ) -> ChangedCalendar: ...
    async def get(self, name: str) -> Calendar: ...
    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[CalendarSummary]: ...
    async def remove(self, name: str, *, version: int | None = None) -> Calendar | None: ...
