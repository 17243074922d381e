"""What is asked of the store about schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol

import msgspec

from duly.domain.schedules.planning import Plan, Planned
from duly.domain.schedules.revisions import Revision, Unclaimed
from duly.domain.schedules.schedule import ScheduleProgress, ScheduleTiming, StoredSchedule
from duly.ports.transactions import Transaction


class DueSchedule(msgspec.Struct, frozen=True):
    """A schedule that is due to be planned; without timing it cannot be read."""

    id: int
    name: str
    version: int
    progress: ScheduleProgress
    timing: ScheduleTiming | None
    problem: str | None = None


class UnreadableSchedule(msgspec.Struct, frozen=True):
    """A schedule that a newer version wrote."""

    name: str
    problem: str


class ZoneUse(msgspec.Struct, frozen=True):
    """Zone data from which something was computed."""

    zone: str
    hash: str
    version: str


class AuditEntry(msgspec.Struct, frozen=True):
    """One change: who, what, and of which thing."""

    id: int
    done_at: datetime
    actor: str
    action: str
    subject: str
    detail: Any = None


class Schedules(Protocol):
    """Schedules as people read and change them."""

    async def get(self, name: str) -> StoredSchedule:
        """One schedule, or NotFound; UnreadableRule when a newer version wrote it."""

    async def page(self, after: str, limit: int) -> list[StoredSchedule | UnreadableSchedule]:
        """Schedules by name."""

    async def revise(
        self,
        name: str,
        decide: Callable[[StoredSchedule | None, datetime, Unclaimed], Revision | None],
        actor: str,
        detail: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> tuple[StoredSchedule | None, Revision | None]:
        """Change one schedule by what `decide` makes of it, the present, and which of its
        deliveries nobody has claimed; returns it as it is now.

        Atomic, by itself or with the transaction that is given: the row is locked while it is
        decided, and its delivery moves with it.
        """

    async def create_all(
        self,
        decide: Callable[[datetime], Sequence[tuple[str, Revision]]],
        actor: str,
        transaction: Transaction | None = None,
    ) -> None:
        """Create many schedules, all or none; Conflict when one of the names is taken."""

    async def unfinished(self, name: str, transaction: Transaction | None = None) -> list[str]:
        """Of its latest occurrences, those under way; the next one on the books is not."""

    async def add_runs(
        self, schedule: StoredSchedule, planned: Sequence[Planned], actor: str
    ) -> int:
        """Make occurrences beside the plan; returns how many were new."""

    async def unfinished_before(self, delivery: str, stream: str) -> int:
        """How many earlier occurrences of its schedule are unfinished, in its stream or not."""

    async def zones(self) -> list[ZoneUse]:
        """From which data of which zones something was computed."""

    async def of_zone(self, use: ZoneUse, after: str, limit: int) -> list[str]:
        """The names of schedules that were computed from that data."""

    async def without_next(self, after: str, batch: int) -> tuple[list[str], str | None]:
        """Schedules of one slice that lack their next occurrence, and where to go on."""


class Sitting(Protocol):
    """Some schedules that a planner holds, and what it decides about them."""

    due: list[DueSchedule]

    async def untouched(self, ids: Sequence[str | None]) -> set[str]:
        """Of these deliveries, those that nobody has claimed; nobody can until the end."""

    def write(self, schedule: int, plan: Plan) -> None:
        """Have the plan written when the sitting ends."""


class Soonest(msgspec.Struct, frozen=True):
    """When a namespace has something to plan next, by the store's clock."""

    namespace: str
    next_at: datetime
    seen_at: datetime


class Plans(Protocol):
    """The planner's side of schedules."""

    async def soonest(self, served: Sequence[str] | None) -> list[Soonest]:
        """When each of these namespaces, or of all, has something to plan next."""

    async def clock(self) -> tuple[datetime, datetime | None]:
        """The store's present, and the moment up to which anyone has planned."""

    async def is_behind(self, until: datetime, passed_over: Sequence[int]) -> bool:
        """Whether anything is due to be planned, be it another planner's already or not."""

    async def next_at(self, passed_over: Sequence[int]) -> datetime | None:
        """When a planner has something to do next."""

    async def ready(
        self, until: datetime, batch: int, passed_over: Sequence[int], after: DueSchedule | None
    ) -> list[DueSchedule]:
        """A page of what is due to be planned, nothing locked; `after` is the last one before."""

    async def write(self, plans: Sequence[tuple[DueSchedule, Plan]]) -> int:
        """Write plans that make one occurrence each and nothing else; returns how many applied.

        A schedule that was changed since it was read is left as it is.
        """

    async def note(self, until: datetime) -> None:
        """Remember up to which moment was planned."""

    def sit(
        self, until: datetime, batch: int, passed_over: Sequence[int]
    ) -> AbstractAsyncContextManager[Sitting]:
        """Schedules that are due to be planned, locked until what was decided is written."""


class Audit(Protocol):
    """Who changed what."""

    async def page(self, limit: int, before: int) -> list[AuditEntry]:
        """Entries, the latest first; `before` is the id to go on from."""
