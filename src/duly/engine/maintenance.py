"""The slow loops: removing what is long finished, sweeping up, and keeping an ear open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from duly.domain.events import Pruned, SweptUp
from duly.domain.schedules.planning import NewId
from duly.domain.schedules.revisions import Revision, Unclaimed, replan
from duly.domain.schedules.schedule import StoredSchedule
from duly.engine.loops import Pause
from duly.errors import NotFound, UnreadableRule
from duly.ports import Emit, Maintenance, Schedules, Wakeups

AFTER_START_SECONDS = 60.0
BEGINNING = "00000000-0000-0000-0000-000000000000"
BETWEEN_SLICES = Pause(0.1)
"""Long enough to leave the store to those who are in a hurry."""


class Memory(Protocol):
    """What is remembered for a while."""

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Forget at most a batch of what is older; returns how many those were."""


class Repair(Protocol):
    """What gives schedules back the next occurrence that they lack."""

    async def mend(self, after: str, batch: int) -> tuple[int, str | None]:
        """Mend one slice; returns how many were mended, and where to go on."""


class Pruner:
    """Removes finished deliveries after their time, never unfinished ones."""

    name = "pruner"

    def __init__(
        self,
        upkeep: Maintenance,
        emit: Emit,
        *,
        keep_completed: timedelta,
        keep_dead: timedelta,
        interval: float,
        batch: int,
    ) -> None:
        self.wake = asyncio.Event()
        self._upkeep = upkeep
        self._emit = emit
        self._keep = (keep_completed, keep_dead)
        self._interval = interval
        self._batch = batch
        self._after: str | None = None

    async def tick(self) -> Pause:
        """Prune one slice of the ledger; the first time only after a while."""
        if self._after is None:
            self._after = BEGINNING
            return Pause(min(self._interval, AFTER_START_SECONDS))
        pruned, after = await self._upkeep.prune(*self._keep, self._after, self._batch)
        if pruned:
            self._emit(Pruned(deliveries=pruned))
        self._after = after or BEGINNING
        return Pause(self._interval) if after is None else BETWEEN_SLICES


class Forgetter:
    """Forgets messages that were received, and requests that were answered, long ago."""

    name = "forgetter"

    def __init__(
        self, memories: Sequence[tuple[Memory, timedelta]], *, interval: float, batch: int
    ) -> None:
        self.wake = asyncio.Event()
        self._memories = memories
        self._interval = interval
        self._batch = batch

    async def tick(self) -> Pause:
        """Forget at most a batch of each."""
        forgotten = [await each.prune(kept, self._batch) for each, kept in self._memories]
        return BETWEEN_SLICES if max(forgotten) >= self._batch else Pause(self._interval)


class Mender:
    """Gives schedules back the next occurrence that they lack."""

    def __init__(self, schedules: Schedules, new_id: NewId) -> None:
        self._schedules = schedules
        self._new_id = new_id

    async def mend(self, after: str, batch: int) -> tuple[int, str | None]:
        """Mend one slice; returns how many were mended, and where to go on."""
        names, after_that = await self._schedules.without_next(after, batch)
        mended = 0
        for name in names:
            # What cannot be read is told by the planner, and what was removed lacks nothing.
            with contextlib.suppress(UnreadableRule, NotFound):
                _, revision = await self._schedules.revise(name, self._decide, "sweeper")
                mended += revision is not None
        return mended, after_that

    def _decide(
        self, schedule: StoredSchedule | None, now: datetime, unclaimed: Unclaimed
    ) -> Revision | None:
        is_lacking = schedule is not None and schedule.paused_at is None and not unclaimed.next
        return replan(schedule, now, self._new_id) if schedule and is_lacking else None


class Sweeper:
    """Looks for what no ordinary path would pick up; normally there is nothing."""

    name = "sweeper"

    def __init__(
        self, upkeep: Maintenance, mender: Repair, emit: Emit, *, interval: float, batch: int
    ) -> None:
        self.wake = asyncio.Event()
        self._upkeep = upkeep
        self._mender = mender
        self._schedules_after = ""
        self._emit = emit
        self._interval = interval
        self._batch = batch
        self._after: str | None = None

    async def tick(self) -> Pause:
        """Sweep one slice of the ledger; the first time only after a while."""
        if self._after is None:
            self._after = BEGINNING
            return Pause(min(self._interval, AFTER_START_SECONDS))
        swept, after = await self._upkeep.sweep(self._after, self._batch)
        mended, schedules_after = await self._mender.mend(self._schedules_after, self._batch)
        swept = msgspec.structs.replace(swept, schedule_without_next=mended)
        if swept.total:
            self._emit(
                SweptUp(
                    without_lane=swept.without_lane,
                    held_by_nobody=swept.held_by_nobody,
                    lane_without_delivery=swept.lane_without_delivery,
                    schedule_without_next=swept.schedule_without_next,
                )
            )
        # Ledger and schedules are walked side by side; the shorter one is walked again meanwhile.
        self._after, self._schedules_after = after or BEGINNING, schedules_after or ""
        return Pause(self._interval) if after is None else BETWEEN_SLICES


class Listener:
    """Keeps the line open on which other processes say that something is due."""

    name = "listener"

    def __init__(self, wakeups: Wakeups, interval: float) -> None:
        self.wake = asyncio.Event()
        self._wakeups = wakeups
        self._interval = interval

    async def tick(self) -> Pause:
        """Check the line, mending it if need be."""
        await self._wakeups.check()
        return Pause(self._interval)
