"""The slow loops: pruning, sweeping, and checking the connection for wake-ups."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

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
"""Long enough to leave the store to urgent work."""
Prune = Callable[[timedelta, int], Awaitable[int]]
"""Removes at most a batch of rows that are older; returns their number."""
Repair = Callable[[str, int], Awaitable[tuple[int, str | None]]]
"""Repairs one slice after a cursor; returns the number repaired, and the next cursor."""


class Pruner:
    """Removes finished deliveries after the time they are kept, never unfinished ones."""

    name = "pruner"

    def __init__(
        self,
        maintenance: Maintenance,
        emit: Emit,
        *,
        keep_completed: timedelta,
        keep_dead: timedelta,
        interval: float,
        batch: int,
    ) -> None:
        self.wake = asyncio.Event()
        self._maintenance = maintenance
        self._emit = emit
        self._keep = (keep_completed, keep_dead)
        self._interval = interval
        self._batch = batch
        self._after: str | None = None

    async def tick(self) -> Pause:
        """Prune one slice of the ledger; the first call only waits."""
        if self._after is None:
            self._after = BEGINNING
            return Pause(min(self._interval, AFTER_START_SECONDS))
        pruned, after = await self._maintenance.prune(*self._keep, self._after, self._batch)
        if pruned:
            self._emit(Pruned(deliveries=pruned))
        self._after = after or BEGINNING
        return Pause(self._interval) if after is None else BETWEEN_SLICES


class RetentionPruner:
    """Removes old rows of the inbox and of idempotent requests."""

    name = "retention pruner"

    def __init__(
        self, kinds: Sequence[tuple[Prune, timedelta]], *, interval: float, batch: int
    ) -> None:
        self.wake = asyncio.Event()
        self._kinds = kinds
        self._interval = interval
        self._batch = batch

    async def tick(self) -> Pause:
        """Remove at most a batch of each kind."""
        pruned = [await prune(kept_for, self._batch) for prune, kept_for in self._kinds]
        return BETWEEN_SLICES if max(pruned) >= self._batch else Pause(self._interval)


async def repair_schedules(
    schedules: Schedules, new_id: NewId, after: str, batch: int
) -> tuple[int, str | None]:
    """Plan missing next occurrences of one slice; returns the number, and the next cursor."""

    def decide(
        schedule: StoredSchedule | None, now: datetime, unclaimed: Unclaimed
    ) -> Revision | None:
        is_lacking = schedule is not None and schedule.paused_at is None and not unclaimed.next
        return replan(schedule, now, new_id) if schedule and is_lacking else None

    names, cursor = await schedules.without_next(after, batch)
    repaired = 0
    for name in names:
        # The planner reports unreadable rules; a removed schedule needs no repair.
        with contextlib.suppress(UnreadableRule, NotFound):
            _, revision = await schedules.revise(name, decide, "sweeper")
            repaired += revision is not None
    return repaired, cursor


class Sweeper:
    """Repairs rows that nothing else would pick up; normally there are none."""

    name = "sweeper"

    def __init__(
        self, maintenance: Maintenance, repair: Repair, emit: Emit, *, interval: float, batch: int
    ) -> None:
        self.wake = asyncio.Event()
        self._maintenance = maintenance
        self._repair = repair
        self._schedules_after = ""
        self._emit = emit
        self._interval = interval
        self._batch = batch
        self._after: str | None = None

    async def tick(self) -> Pause:
        """Sweep one slice of the ledger; the first call only waits."""
        if self._after is None:
            self._after = BEGINNING
            return Pause(min(self._interval, AFTER_START_SECONDS))
        swept, after = await self._maintenance.sweep(self._after, self._batch)
        repaired, schedules_after = await self._repair(self._schedules_after, self._batch)
        swept = msgspec.structs.replace(swept, schedule_without_next=repaired)
        if swept.total:
            self._emit(SweptUp(**msgspec.structs.asdict(swept)))
        # Ledger and schedules are read in parallel; the shorter one is read again meanwhile.
        self._after, self._schedules_after = after or BEGINNING, schedules_after or ""
        return Pause(self._interval) if after is None else BETWEEN_SLICES


class OrphanPruner:
    """Removes orphaned schedules once the last worker that declared them has ended."""

    name = "orphan pruner"

    def __init__(self, prune: Callable[[], Awaitable[None]], interval: float) -> None:
        self.wake = asyncio.Event()
        self._prune = prune
        self._pause = Pause(interval)

    async def tick(self) -> Pause:
        """Remove the orphans of this program."""
        await self._prune()
        return self._pause


class Listener:
    """Keeps the connection open on which other processes announce due work."""

    name = "listener"

    def __init__(self, wakeups: Wakeups, interval: float) -> None:
        self.wake = asyncio.Event()
        self._wakeups = wakeups
        self._interval = interval

    async def tick(self) -> Pause:
        """Check the connection, and reconnect if needed."""
        await self._wakeups.check()
        return Pause(self._interval)
