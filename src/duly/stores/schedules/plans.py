"""Schedules as planners use them: those due to be planned, and the plans that are written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any

from duly.domain.checks import EARLIEST
from duly.domain.schedules.planning import Plan, Planned
from duly.domain.schedules.schedule import ScheduleProgress, ScheduleTiming
from duly.domain.time.rules import decode_rule
from duly.errors import UnreadableRule
from duly.failpoints import hit
from duly.ports import DueSchedule, NextPlan
from duly.records.schedule import CatchUp, Overlap
from duly.stores.database import Database, Session


class Plans:
    """What planners of one namespace share; any number of them may work at the same time."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def clock(self) -> tuple[datetime, datetime | None]:
        """The store's current time, and the time up to which any planner has planned."""
        rows = await self._database.fetch_named("schedules.now", "any", namespace=self._namespace)
        return rows[0]["seen_at"], rows[0]["until_at"]

    async def next_plans(self, served: Sequence[str] | None) -> list[NextPlan]:
        """When each of these namespaces, or of all, has to be planned next."""
        rows = await self._database.fetch_named(
            "schedules.next_plans", "any", served=None if served is None else list(served)
        )
        return [NextPlan(**dict(row)) for row in rows]

    async def is_behind(self, until: datetime, passed_over: Sequence[int]) -> bool:
        """Whether any schedule is due to be planned, even if another planner has locked it."""
        rows = await self._database.fetch(
            "schedules.behind",
            "any",
            namespace=self._namespace,
            until_at=until,
            passed_over=list(passed_over),
        )
        return bool(rows[0][0])

    async def next_at(self, passed_over: Sequence[int]) -> datetime | None:
        """When the next schedule is due to be planned, or None."""
        rows = await self._database.fetch_named(
            "schedules.next", "any", namespace=self._namespace, passed_over=list(passed_over)
        )
        return rows[0]["next_at"] if rows else None

    async def ready(
        self, until: datetime, batch: int, passed_over: Sequence[int], after: DueSchedule | None
    ) -> list[DueSchedule]:
        """A page of schedules due to be planned, not locked; `after` is the last one before it."""
        rows = await self._database.fetch_named(
            "schedules.ready",
            "plan",
            namespace=self._namespace,
            until_at=until,
            after_at=EARLIEST if after is None else after.progress.next_at,
            after=0 if after is None else after.id,
            batch=batch,
            passed_over=list(passed_over),
        )
        return [_due(row, row) for row in rows]

    async def write(self, plans: Sequence[tuple[DueSchedule, Plan]]) -> int:
        """Write plans that only create one occurrence each; returns how many applied.

        One statement. A schedule that was changed since it was read, or that another planner has
        locked, is skipped.
        """
        await hit("plan.before")
        rows = await self._database.fetch_batch(
            "schedules.plan", "plan", columns=_plan_columns(plans)
        )
        await hit("plan.after")
        return int(rows[0][0])

    async def note(self, until: datetime) -> None:
        """Store the time up to which was planned."""
        await self._database.fetch(
            "schedules.note_planned", "any", namespace=self._namespace, until_at=until
        )

    @asynccontextmanager
    async def lock_due(
        self, until: datetime, batch: int, passed_over: Sequence[int]
    ) -> AsyncIterator[LockedSchedules]:
        """Schedules due to be planned, locked until their plans are written.

        Atomic: occurrences and progress are written together, or not at all.
        """
        async with self._database.together("plan") as session:
            rows = await session.fetch_named(
                "schedules.due",
                namespace=self._namespace,
                until_at=until,
                batch=batch,
                passed_over=list(passed_over),
            )
            timings = await session.fetch_named(
                "schedules.timings", ids=[row["id"] for row in rows]
            )
            locked = LockedSchedules(session, rows, {row["id"]: row for row in timings})
            yield locked
            await hit("plan.before")
            if locked.plans:
                await write_plans(session, locked.plans)
                await session.fetch(
                    "schedules.note_planned", "any", namespace=self._namespace, until_at=until
                )
            await hit("plan.middle")
        await hit("plan.after")


class LockedSchedules:
    """Schedules that a planner has locked, and the plans it makes for them."""

    def __init__(
        self,
        session: Session,
        rows: Sequence[Mapping[str, Any]],
        timings: Mapping[int, Mapping[str, Any]],
    ) -> None:
        self._session = session
        self.due = [_due(row, timings[row["id"]]) for row in rows if row["id"] in timings]
        self.plans: list[tuple[int, Plan]] = []

    async def untouched(self, ids: Sequence[str | None]) -> set[str]:
        """The deliveries among these that no worker has claimed, nor can until the end."""
        return await untouched(self._session, ids)

    def write(self, schedule: int, plan: Plan) -> None:
        """Add a plan, which is written when the locked ends."""
        self.plans.append((schedule, plan))


def _due(row: Mapping[str, Any], definition: Mapping[str, Any]) -> DueSchedule:
    try:
        timing, problem = timing_of(definition), None
    except UnreadableRule as error:
        timing, problem = None, str(error)
    name, version = definition["name"], row["version"]
    return DueSchedule(row["id"], name, version, progress_of(row), timing, problem)


async def untouched(session: Session, ids: Sequence[str | None]) -> set[str]:
    """The deliveries among these that no worker has claimed; they stay locked."""
    known = [id for id in ids if id is not None]
    if not known:
        return set()
    rows = await session.fetch_batch("schedules.untouched", columns={"id": known})
    return {row[0] for row in rows}


async def write_plans(session: Session, plans: Sequence[tuple[int, Plan]]) -> None:
    """Write the plans of schedules, given by their numbers."""
    moves = [(id, each) for id, plan in plans for each in plan.move]
    drops = [each for _, plan in plans for each in plan.drop]
    # Drop first: a new or moved occurrence may take the place of a dropped one.
    if drops:
        columns: dict[str, Sequence[Any]] = {
            "id": [id for id, _ in drops],
            "how": [how.value for _, how in drops],
        }
        await session.fetch_batch("schedules.drop", columns=columns)
    if moves:
        await session.fetch_batch("schedules.move", columns=_planned_columns(moves))
    await make(session, [(id, each) for id, plan in plans for each in plan.make])
    steps = [(id, plan.progress) for id, plan in plans]
    await session.fetch_batch("schedules.advance", columns=_progress_columns(steps))


async def make(session: Session, planned: Sequence[tuple[int, Planned]]) -> int:
    """Create occurrences; returns how many did not exist yet."""
    if not planned:
        return 0
    rows = await session.fetch_batch("schedules.make", columns=_planned_columns(planned))
    return int(rows[0][0])


def _plan_columns(plans: Sequence[tuple[DueSchedule, Plan]]) -> dict[str, Sequence[Any]]:
    progress = [plan.progress for _, plan in plans]
    occurrences = [plan.make[0] if plan.make else None for _, plan in plans]
    return {
        "schedule": [due.id for due, _ in plans],
        "version": [due.version for due, _ in plans],
        "fired": [each.fired for each in progress],
        "fired_at": [each.fired_at for each in progress],
        "made": [each.made for each in progress],
        "made_at": [each.made_at for each in progress],
        "made_id": [each.made_id for each in progress],
        "runs": [each.runs for each in progress],
        "due_at": [None if each is None else each.due_at for each in occurrences],
        "occasion": [None if each is None else each.occasion for each in occurrences],
        "zone": [each.zone for each in progress],
        "zone_hash": [each.zone_hash for each in progress],
        "zone_version": [each.zone_version for each in progress],
    }


def _planned_columns(planned: Sequence[tuple[int, Planned]]) -> dict[str, Sequence[Any]]:
    return {
        "schedule": [id for id, _ in planned],
        "id": [each.id for _, each in planned],
        "occurrence": [each.occurrence for _, each in planned],
        "due_at": [each.due_at for _, each in planned],
        "occasion": [each.occasion for _, each in planned],
    }


def _progress_columns(steps: Sequence[tuple[int, ScheduleProgress]]) -> dict[str, Sequence[Any]]:
    columns: dict[str, Sequence[Any]] = {"id": [id for id, _ in steps]}
    for name in ScheduleProgress.__struct_fields__:
        columns[name] = [getattr(progress, name) for _, progress in steps]
    return columns


TIMING = (
    *("rule", "catch_up", "catch_up_window", "catch_up_cap", "overlap"),
    *("starts_at", "ends_at", "max_runs", "jitter", "calendar_days"),
)
_timing_columns = itemgetter(*TIMING)


def timing_of(row: Mapping[str, Any]) -> ScheduleTiming:
    """The timing of a stored schedule; UnreadableRule if a newer version wrote it."""
    return _timing(*_timing_columns(row))


@lru_cache(4096)
def _timing(
    rule: str,
    catch_up: str,
    window: float | None,
    cap: int,
    overlap: str,
    starts_at: datetime | None,
    ends_at: datetime | None,
    max_runs: int | None,
    jitter: float,
    calendar_days: str | None,
) -> ScheduleTiming:
    # Cached: most schedules that are due together have the same rule.
    try:
        policies = CatchUp(catch_up), Overlap(overlap)
    except ValueError as error:
        raise UnreadableRule(rule, str(error)) from error
    return ScheduleTiming(
        rule=decode_rule(rule, calendar_days),
        catch_up=policies[0],
        window=window,
        cap=cap,
        overlap=policies[1],
        starts_at=starts_at,
        ends_at=ends_at,
        max_runs=max_runs,
        jitter=jitter,
    )


def progress_of(row: Mapping[str, Any]) -> ScheduleProgress:
    """The progress of a stored schedule."""
    made_id = row["made_id"]
    return ScheduleProgress(
        fired_at=row["fired_at"],
        fired=row["fired"],
        made=row["made"],
        made_at=row["made_at"],
        made_id=None if made_id is None else str(made_id),
        next_at=row["next_at"],
        runs=row["runs"],
        merged=row["merged"],
        skipped=row["skipped"],
        zone=row.get("zone"),
        zone_hash=row.get("zone_hash"),
        zone_version=row.get("zone_version"),
        missed_at=row.get("missed_at"),
    )
