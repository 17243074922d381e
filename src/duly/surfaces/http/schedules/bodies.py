"""Request bodies and queries of schedules, other than the records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from duly.errors import InvalidInput
from duly.records.partial import partial_of
from duly.records.schedule import Backfilled, RuleSpec, ScheduleFilter, ScheduleSpec
from duly.surfaces.http.protocol.bodies import Moment
from duly.surfaces.http.protocol.bulk import BUDGET_SECONDS, Seconds
from duly.surfaces.http.protocol.pages import Cursor, Limit

MOST_NAMES = 10_000
Preview = Annotated[int, Meta(ge=1, le=1000, description="how many moments")]


class ScheduleChange(partial_of(ScheduleSpec, "ScheduleFields")):  # type: ignore[misc]
    """The fields of a schedule to change; the others stay as they are."""

    EXAMPLE: ClassVar = {"rule": {"every": "15m"}, "priority": 9}


class SchedulesQuery(ScheduleFilter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which schedules to list."""

    cursor: Cursor | None = None
    limit: Limit = 50

    def wanted(self) -> dict[str, Any]:
        """As `schedules.list` takes it."""
        return {name: getattr(self, name) for name in ScheduleFilter.__struct_fields__}


class PreviewQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many moments to show."""

    n: Preview = 5


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to resume."""

    EXAMPLE: ClassVar = {"from_pause": True}
    from_pause: Annotated[
        bool, Meta(description="deliver missed occurrences by its catch-up rule")
    ] = False


class ScheduleMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which schedules to change: by their names, by part of a name, or all of them."""

    names: Annotated[tuple[str, ...], Meta(max_length=MOST_NAMES)] = ()
    text: Annotated[str, Meta(description="part of the name, in upper or lower case")] | None = None
    all: Annotated[bool, Meta(description="all schedules, without a filter")] = False
    until: Moment | None = None
    seconds: Seconds = BUDGET_SECONDS
    dry_run: Annotated[bool, Meta(description="only count")] = False

    def filter(self) -> dict[str, Any]:
        """As `schedules.pause_all` takes it; refuses all schedules unless `all` says so."""
        if (not self.names and self.text is None) != self.all:
            raise InvalidInput("all", "give names or text, or only all: true")
        return {"names": self.names, "text": self.text, "until": self.until}


class PauseMany(ScheduleMove, frozen=True, kw_only=True):
    """Which schedules to pause, and why."""

    EXAMPLE: ClassVar = {"text": "report", "reason": "maintenance", "dry_run": True}
    reason: str | None = None


class ResumeMany(ScheduleMove, frozen=True, kw_only=True):
    """Which schedules to resume, and how."""

    EXAMPLE: ClassVar = {"names": ["monday-report"], "from_pause": True}
    from_pause: Annotated[
        bool, Meta(description="deliver missed occurrences by the catch-up rule of each")
    ] = False


class Backfill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A past range whose missing occurrences are created."""

    EXAMPLE: ClassVar = {
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-11-08T00:00:00Z",
        "dry_run": True,
    }
    start: Moment
    end: Moment
    dry_run: Annotated[bool, Meta(description="only count the moments")] = False


async def filled(moments: int, slices: AsyncIterator[int]) -> Backfilled:
    """Create them; if cancelled, finish the current slice and return the result so far."""
    made, finished = 0, True
    try:
        async for more in slices:
            made += more
    except asyncio.CancelledError:
        finished = False
    return Backfilled(moments, made, finished)


class Explain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule to explain."""

    EXAMPLE: ClassVar = {"rule": {"cron": "30 2 * * MON-FRI", "tz": "Europe/Oslo"}, "n": 3}
    rule: RuleSpec
    n: Preview = 5
