"""The store's interface for schedules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol

import msgspec

from duly.domain.schedules.calendars import StoredCalendar
from duly.domain.schedules.origin import Origin
from duly.domain.schedules.planning import Plan, Planned
from duly.domain.schedules.revisions import Revision, Unclaimed
from duly.domain.schedules.schedule import ScheduleProgress, ScheduleTiming, StoredSchedule
from duly.ports.transactions import Transaction
from duly.records.audit_entry import AuditEntry
from duly.records.schedule import EVERY_SCHEDULE, ScheduleFilter


class DueSchedule(msgspec.Struct, frozen=True):
    """A schedule that is due to be planned; without `timing` it is unreadable."""

    id: int
    name: str
    version: int
    progress: ScheduleProgress
    timing: ScheduleTiming | None
    problem: str | None = None


class UnreadableSchedule(msgspec.Struct, frozen=True):
    """A schedule that a newer version wrote and this one cannot read."""

    name: str
    problem: str


class ZoneUse(msgspec.Struct, frozen=True):
    """Zone data from which stored occurrences were computed."""

    zone: str
    hash: str
    version: str


class Schedules(Protocol):
    """Reading and changing schedules."""

    async def get(self, name: str) -> StoredSchedule:
        """One schedule, or NotFound; UnreadableRule if a newer version wrote it."""

    async def page(
        self, after: str, limit: int, filter: ScheduleFilter = EVERY_SCHEDULE
    ) -> list[StoredSchedule | UnreadableSchedule]:
        """A page of schedules that match, sorted by name.

        The state of an unreadable schedule is not known here: it may match any.
        """

    async def revise(
        self,
        name: str,
        decide: Callable[[StoredSchedule | None, datetime, Unclaimed], Revision | None],
        actor: str,
        detail: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
        *,
        origin: Callable[[Origin | None], Origin | None] | None = None,
        calendars: Collection[StoredCalendar] = (),
    ) -> tuple[StoredSchedule | None, Revision | None]:
        """Change one schedule as `decide` returns; returns the new version.

        `decide` gets the schedule, the present moment, and its unclaimed deliveries. Atomic, by
        itself or in the given transaction: the row is locked while `decide` runs, and its delivery
        is changed with it. `origin` returns where code declares it from then on. CalendarChanged if
        one of the `calendars`, with whose days it decides, is another by now.
        """

    async def create_all(
        self,
        decide: Callable[[datetime], Sequence[tuple[str, Revision]]],
        actor: str,
        transaction: Transaction | None = None,
        *,
        calendars: Collection[StoredCalendar] = (),
    ) -> None:
        """Create many schedules, all or none; Conflict if one of the names exists.

        CalendarChanged if one of the `calendars` is another by now.
        """

    async def unfinished(self, name: str, transaction: Transaction | None = None) -> list[str]:
        """The unfinished ones of its latest occurrences, without the next one."""

    async def add_runs(
        self, schedule: StoredSchedule, planned: Sequence[Planned], actor: str
    ) -> int:
        """Store extra occurrences beside the plan; returns how many were new."""

    async def unfinished_before(self, delivery: str, stream: str) -> int:
        """The number of unfinished earlier occurrences; those in its stream count as one."""

    async def zones(self) -> list[ZoneUse]:
        """The zone data from which stored occurrences were computed."""

    async def of_zone(self, use: ZoneUse, after: str, limit: int) -> list[str]:
        """The names of schedules computed from this zone data."""

    async def without_next(self, after: str, batch: int) -> tuple[list[str], str | None]:
        """Schedules of one slice whose next occurrence is missing, and where to continue."""


class LockedSchedules(Protocol):
    """Schedules that a planner has locked, and its decisions about them."""

    due: list[DueSchedule]

    async def untouched(self, ids: Sequence[str | None]) -> set[str]:
        """The unclaimed ones of these deliveries; they are locked until the locked ends."""

    def write(self, schedule: int, plan: Plan) -> None:
        """Write the plan when the locked ends."""


class NextPlan(msgspec.Struct, frozen=True):
    """When a namespace next has a schedule to plan, by the store's clock."""

    namespace: str
    next_at: datetime
    seen_at: datetime


class Plans(Protocol):
    """The planner's interface to schedules."""

    async def next_plans(self, served: Sequence[str] | None) -> list[NextPlan]:
        """When each of these namespaces, or of all, next has a schedule to plan."""

    async def clock(self) -> tuple[datetime, datetime | None]:
        """The present moment by the store's clock, and the moment up to which planning was done."""

    async def is_behind(self, until: datetime, passed_over: Sequence[int]) -> bool:
        """Whether any schedule is due to be planned, including those locked by other planners."""

    async def next_at(self, passed_over: Sequence[int]) -> datetime | None:
        """When the next schedule is due to be planned."""

    async def ready(
        self, until: datetime, batch: int, passed_over: Sequence[int], after: DueSchedule | None
    ) -> list[DueSchedule]:
        """A page of schedules due to be planned, not locked; `after` is the last one before it."""

    async def write(self, plans: Sequence[tuple[DueSchedule, Plan]]) -> int:
        """Write plans that only make one occurrence each; returns how many applied.

        A schedule that was changed since it was read is skipped.
        """

    async def note(self, until: datetime) -> None:
        """Record the moment up to which planning was done."""

    def lock_due(
        self, until: datetime, batch: int, passed_over: Sequence[int]
    ) -> AbstractAsyncContextManager[LockedSchedules]:
        """Schedules due to be planned, locked until their plans are written."""


class Audit(Protocol):
    """The audit log."""

    async def page(self, limit: int, before: int) -> list[AuditEntry]:
        """A page of entries, latest first; `before` is the last id of the previous page."""
