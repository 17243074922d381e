"""Request bodies and queries of schedules, other than the records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from duly.records.partial import partial_of
from duly.records.schedule import Backfilled, RuleSpec, ScheduleSpec
from duly.surfaces.http.protocol.bodies import Moment

Preview = Annotated[int, Meta(ge=1, le=1000, description="how many moments")]


class ScheduleChange(partial_of(ScheduleSpec, "ScheduleFields")):  # type: ignore[misc]
    """The fields of a schedule to change; the others stay as they are."""

    EXAMPLE: ClassVar = {"rule": {"every": "15m"}, "priority": 9}


class PreviewQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many moments to show."""

    n: Preview = 5


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to resume."""

    EXAMPLE: ClassVar = {"from_pause": True}
    from_pause: Annotated[
        bool, Meta(description="deliver missed occurrences by its catch-up rule")
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
