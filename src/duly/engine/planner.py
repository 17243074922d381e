"""Plans the next occurrence of every schedule.

A due occurrence does not need the planner: its delivery exists already. When it is due, the planner
makes the one after it, and decides about occurrences missed while no planner ran. Any number of
planners share the work, and a plan that was not written is made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from duly.domain.events import (
    ClockIsBehind,
    ClockStepped,
    PlannerTicked,
    SchedulesPlanned,
    ScheduleUnreadable,
    ZoneDataChanged,
)
from duly.domain.schedules import revisions
from duly.domain.schedules.planning import Plan, Planning, usual_plan
from duly.domain.schedules.schedule import StoredSchedule
from duly.domain.time.zones import fingerprint, zone_data_version
from duly.engine.loops import NOW, Pause, YieldOnce
from duly.errors import InvalidInput, NotFound, UnreadableRule
from duly.ports import Chance, Clock, DueSchedule, Emit, LockedSchedules, Store, ZoneUse

BATCH = 250
GENTLE_BATCH = 10
GENTLE_SECONDS = 0.02
"""Schedules planned at a time: few, with a pause after each batch, while deliveries run."""
SOON = timedelta(minutes=2)
"""Occurrences this soon are planned without a pause."""
PAGES = 40
"""How many batches are planned before the clock is read again."""
SLICE = 10
"""How many are planned before other tasks get to run."""
NAMES = 500
AGAIN_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 30.0
"""How long a start waits for other planners to finish."""
LOOK_AGAIN_SECONDS = 60.0
"""When an unreadable schedule is tried again."""
STEP = timedelta(seconds=5)
TOLERATED_BACK = timedelta(minutes=10)


class Planner:
    """Plans due schedules, and watches the clock."""

    name = "planner"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        emit: Emit,
        *,
        poll: float,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self.wake = asyncio.Event()
        self._store = store
        self._clock = clock
        self._chance = chance
        self._emit = emit
        self._poll = poll
        self._is_busy = is_busy
        self._noted: datetime | None = None
        self._passed_over: dict[int, float] = {}
        self._seen: tuple[datetime, float] | None = None
        self._reported_behind: bool | None = None
        """Whether planning stops, as last reported; None while the clock is right."""

    async def tick(self) -> Pause:
        """Plan the schedules that are due; wait until the next one is."""
        now = await self._moment()
        if now is None:
            return Pause(self._poll)
        if await self._plan(now):
            return NOW
        return await self._until_next(now)

    async def _plan(self, now: datetime) -> int:
        """Plan due schedules, at most PAGES batches; returns their number.

        One page is written while the next one is planned and the one after it is read.
        """
        planned, reading = 0, self._read(now, None)
        writing: asyncio.Task[int] | None = None
        try:
            for left in reversed(range(PAGES)):
                page = await reading
                if left == PAGES - 1:
                    self._report_drift(page, now)
                if not page:
                    break
                if left:
                    reading = self._read(now, page[-1])
                plans, behind = await self._decided_quickly(page, now)
                planned += 0 if writing is None else await writing
                writing = asyncio.create_task(self._write(plans, now))
                planned += await self._sit(now) if behind else 0
                await self._give_way(plans, now)
            return planned if writing is None else planned + await writing
        finally:
            under_way = [reading] if writing is None else [reading, writing]
            await asyncio.gather(*under_way, return_exceptions=True)

    def _report_drift(self, page: Sequence[DueSchedule], now: datetime) -> None:
        due_at = page[0].progress.next_at if page else None
        waited = timedelta() if due_at is None else max(now - due_at, timedelta())
        self._emit(PlannerTicked(drift=waited.total_seconds()))

    async def _give_way(self, plans: Sequence[tuple[DueSchedule, Plan]], now: datetime) -> None:
        """Leave the store to running deliveries, unless the next occurrences are soon."""
        soon = now + SOON
        if self._is_busy() and not any(
            plan.progress.made_at is not None and plan.progress.made_at < soon for _, plan in plans
        ):
            await self._clock.sleep(GENTLE_SECONDS)

    def _read(self, now: datetime, last: DueSchedule | None) -> asyncio.Task[list[DueSchedule]]:
        batch = GENTLE_BATCH if self._is_busy() else BATCH
        return asyncio.create_task(self._store.plans.ready(now, batch, self._ignored(), last))

    async def _write(self, plans: Sequence[tuple[DueSchedule, Plan]], now: datetime) -> int:
        if not plans:
            return 0
        if self._noted != now:
            await self._store.plans.note(now)
            self._noted = now
        written = await self._store.plans.write(plans)
        if written:
            self._report([plan for _, plan in plans], now)
        return written

    async def _decided_quickly(
        self, page: Sequence[DueSchedule], now: datetime
    ) -> tuple[list[tuple[DueSchedule, Plan]], bool]:
        """The plans of schedules that missed nothing, and whether there are others."""
        plans, behind = [], False
        for index, due in enumerate(page):
            if index % SLICE == SLICE - 1:
                await YieldOnce()
            plan = self._usual(due, now)
            planning = None if plan is not None else self._planning(due, now)
            if planning is not None and planning.is_behind:
                behind = True
                continue
            if planning is not None:
                plan = planning.plan(untouched=False)
            if plan is not None:
                plans.append((due, plan))
        return plans, behind

    async def _until_next(self, now: datetime) -> Pause:
        next_at = await self._store.plans.next_at(self._ignored())
        if next_at is None:
            return Pause(self._poll)
        seconds = (next_at - now).total_seconds()
        # Due but not read: another planner has it.
        return Pause(min(seconds, self._poll) if seconds > 0 else AGAIN_SECONDS)

    async def catch_up(self) -> None:
        """Plan all that is due now, and wait for other planners to finish theirs.

        Called before anything is claimed: an occurrence merged into a later one must not be sent.
        """
        until = self._clock.monotonic() + LONGEST_WAIT_SECONDS
        now = await self._moment()
        while now is not None and await self._store.plans.is_behind(now, self._ignored()):
            if not await self._plan(now):
                if self._clock.monotonic() > until:
                    return
                await self._clock.sleep(AGAIN_SECONDS)

    async def at_start(self) -> None:
        """Replan schedules whose time zone data has changed, then catch up."""
        for use in await self._store.schedules.zones():
            if use.version <= zone_data_version() and _has_changed(use):
                await self._replan_zone(use)
        await self.catch_up()

    async def _replan_zone(self, use: ZoneUse) -> None:
        after, moved = "", 0
        while names := await self._store.schedules.of_zone(use, after, NAMES):
            for name in names:
                moved += await self._rezone(name, use)
            after = names[-1]
        self._emit(ZoneDataChanged(zone=use.zone, version=zone_data_version(), schedules=moved))

    async def _rezone(self, name: str, use: ZoneUse) -> bool:
        def decide(
            schedule: StoredSchedule | None, now: datetime, unclaimed: revisions.Unclaimed
        ) -> revisions.Revision | None:
            return None if schedule is None else revisions.rezone(schedule, now, unclaimed.next)

        detail = {"zone": use.zone, "from": use.version, "to": zone_data_version()}
        try:
            _, revision = await self._store.schedules.revise(name, decide, "planner", detail)
        except (UnreadableRule, NotFound):
            return False  # written by a newer version, which planning reports, or removed meanwhile
        return revision is not None

    async def _moment(self) -> datetime | None:
        """Now, or the moment up to which was planned if that is later; None if the clock is wrong.

        If the clock steps back, nothing is repeated: the planner waits until it has caught up.
        More than ten minutes behind, planning stops until an operator sets the clock.
        """
        now, planned_until = await self._store.plans.clock()
        self._check_clock(now)
        if planned_until is None or planned_until <= now:
            self._reported_behind = None
            return now
        behind = planned_until - now
        stops = behind > TOLERATED_BACK
        if behind > STEP and (self._reported_behind is None or stops > self._reported_behind):
            self._reported_behind = stops
            self._emit(ClockIsBehind(seconds=behind.total_seconds(), planning_stops=stops))
        return None if stops else planned_until

    def _check_clock(self, now: datetime) -> None:
        ticked = self._clock.monotonic()
        if self._seen is not None:
            before, before_ticked = self._seen
            step = (now - before) - timedelta(seconds=ticked - before_ticked)
            if abs(step) > STEP:
                self._emit(ClockStepped(seconds=step.total_seconds()))
        self._seen = (now, ticked)

    async def _sit(self, now: datetime) -> int:
        async with self._store.plans.lock_due(now, BATCH, self._ignored()) as locked:
            plans = await self._decided(locked, now)
        if plans:
            self._report(plans, now)
        return len(locked.due)

    async def _decided(self, locked: LockedSchedules, now: datetime) -> list[Plan]:
        readable = [(due, self._planning(due, now)) for due in locked.due]
        plannings = [(due, planning) for due, planning in readable if planning is not None]
        behind = [due.progress.made_id for due, planning in plannings if planning.is_behind]
        untouched = await locked.untouched(behind)
        plans = []
        for due, planning in plannings:
            plan = planning.plan(untouched=due.progress.made_id in untouched)
            locked.write(due.id, plan)
            plans.append(plan)
        return plans

    def _usual(self, due: DueSchedule, now: datetime) -> Plan | None:
        if due.timing is None:
            return None
        return usual_plan(due.name, due.timing, due.progress, now, self._chance.delivery_id)

    def _planning(self, due: DueSchedule, now: datetime) -> Planning | None:
        if due.timing is None:
            if due.id not in self._passed_over:
                self._emit(ScheduleUnreadable(schedule=due.name, problem=due.problem or ""))
            self._passed_over[due.id] = self._clock.monotonic() + LOOK_AGAIN_SECONDS
            return None
        return Planning(due.name, due.timing, due.progress, now, self._chance.delivery_id)

    def _ignored(self) -> Sequence[int]:
        now = self._clock.monotonic()
        return [id for id, until in self._passed_over.items() if now < until]

    def _report(self, plans: Sequence[Plan], now: datetime) -> None:
        if any(each.due_at <= now for plan in plans for each in plan.make):
            self._store.wakeups.hint()
        self._emit(
            SchedulesPlanned(
                schedules=len(plans),
                made=sum(len(plan.make) for plan in plans),
                merged=sum(plan.merged for plan in plans),
                skipped=sum(plan.skipped for plan in plans),
            )
        )


def _has_changed(use: ZoneUse) -> bool:
    try:
        return fingerprint(use.zone) != use.hash
    except InvalidInput:
        return False  # the zone is no longer in the data
