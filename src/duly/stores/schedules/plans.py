"""The planner's side of schedules: those that are due, locked, and what was decided about them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any

from duly.domain.checks import EARLIEST
from duly.domain.schedules.planning import Plan, Planned
from duly.domain.schedules.schedule import CatchUp, Overlap, ScheduleProgress, ScheduleTiming
from duly.domain.time.rules import decode_rule
from duly.errors import UnreadableRule
from duly.failpoints import hit
from duly.ports import DueSchedule, Soonest
from duly.stores.database import Database, Session


class Plans:
    """What planners of one namespace share; any number of them may sit at once."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def clock(self) -> tuple[datetime, datetime | None]:
        """The store's present, and the moment up to which anyone has planned."""
        rows = await self._database.fetch_named("schedules.now", "any", namespace=self._namespace)
        return rows[0]["seen_at"], rows[0]["until_at"]

    async def soonest(self, served: Sequence[str] | None) -> list[Soonest]:
        """When each of these namespaces, or of all, has something to plan next."""
        rows = await self._database.fetch_named(
            "schedules.soonest", "any", served=None if served is None else list(served)
        )
        return [Soonest(**dict(row)) for row in rows]

    async def is_behind(self, until: datetime, passed_over: Sequence[int]) -> bool:
        """Whether anything is due to be planned, be it another planner's already or not."""
        rows = await self._database.fetch(
            "schedules.behind",
            "any",
            namespace=self._namespace,
            until_at=until,
            passed_over=list(passed_over),
        )
        return bool(rows[0][0])

    async def next_at(self, passed_over: Sequence[int]) -> datetime | None:
        """When a planner has something to do next."""
        rows = await self._database.fetch_named(
            "schedules.next", "any", namespace=self._namespace, passed_over=list(passed_over)
        )
        return rows[0]["next_at"] if rows else None

    async def ready(
        self, until: datetime, batch: int, passed_over: Sequence[int], after: DueSchedule | None
    ) -> list[DueSchedule]:
        """A page of what is due to be planned, nothing locked; `after` is the last one before."""
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
        """Write plans that make one occurrence each and nothing else; returns how many applied.

        One statement. A schedule that was changed since it was read, or that another planner is
        at, is left as it is.
        """
        await hit("plan.before")
        rows = await self._database.fetch_batch(
            "schedules.plan", "plan", columns=_quick_columns(plans)
        )
        await hit("plan.after")
        return int(rows[0][0])

    async def note(self, until: datetime) -> None:
        """Remember up to which moment was planned."""
        await self._database.fetch(
            "schedules.note_planned", "any", namespace=self._namespace, until_at=until
        )

    @asynccontextmanager
    async def sit(
        self, until: datetime, batch: int, passed_over: Sequence[int]
    ) -> AsyncIterator[Sitting]:
        """Schedules that are due to be planned, locked until what was decided is written.

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
            sitting = Sitting(session, rows, {row["id"]: row for row in timings})
            yield sitting
            await hit("plan.before")
            if sitting.plans:
                await write_plans(session, sitting.plans)
                await session.fetch(
                    "schedules.note_planned", "any", namespace=self._namespace, until_at=until
                )
            await hit("plan.middle")
        await hit("plan.after")


class Sitting:
    """Some schedules that a planner holds, and what it decides about them."""

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
        """Of these deliveries, those that nobody has claimed; nobody can until the end."""
        return await untouched(self._session, ids)

    def write(self, schedule: int, plan: Plan) -> None:
        """Have the plan written when the sitting ends."""
        self.plans.append((schedule, plan))


def _due(row: Mapping[str, Any], definition: Mapping[str, Any]) -> DueSchedule:
    try:
        timing, problem = timing_of(definition), None
    except UnreadableRule as error:
        timing, problem = None, str(error)
    name, version = definition["name"], row["version"]
    return DueSchedule(row["id"], name, version, progress_of(row), timing, problem)


async def untouched(session: Session, ids: Sequence[str | None]) -> set[str]:
    """Of these deliveries, those that nobody has claimed; they stay locked."""
    known = [id for id in ids if id is not None]
    if not known:
        return set()
    rows = await session.fetch_batch("schedules.untouched", columns={"id": known})
    return {row[0] for row in rows}


async def write_plans(session: Session, plans: Sequence[tuple[int, Plan]]) -> None:
    """Write what was decided about schedules, given by their numbers."""
    moves = [(id, each) for id, plan in plans for each in plan.move]
    drops = [each for _, plan in plans for each in plan.drop]
    # First what goes: another one may take the place of an occurrence that is withdrawn.
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
    """Put occurrences on the books; returns how many were not there already."""
    if not planned:
        return 0
    rows = await session.fetch_batch("schedules.make", columns=_planned_columns(planned))
    return int(rows[0][0])


def _quick_columns(plans: Sequence[tuple[DueSchedule, Plan]]) -> dict[str, Sequence[Any]]:
    progress = [plan.progress for _, plan in plans]
    made = [plan.make[0] if plan.make else None for _, plan in plans]
    return {
        "schedule": [due.id for due, _ in plans],
        "version": [due.version for due, _ in plans],
        "fired": [each.fired for each in progress],
        "fired_at": [each.fired_at for each in progress],
        "made": [each.made for each in progress],
        "made_at": [each.made_at for each in progress],
        "made_id": [each.made_id for each in progress],
        "runs": [each.runs for each in progress],
        "due_at": [None if each is None else each.due_at for each in made],
        "occasion": [None if each is None else each.occasion for each in made],
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
    *("starts_at", "ends_at", "max_runs", "jitter"),
)
_timing_columns = itemgetter(*TIMING)


def timing_of(row: Mapping[str, Any]) -> ScheduleTiming:
    """When the stored schedule is due; UnreadableRule when a newer version wrote it."""
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
) -> ScheduleTiming:
    # Remembered: of those that are due together, most are due by the same rule.
    try:
        policies = CatchUp(catch_up), Overlap(overlap)
    except ValueError as error:
        raise UnreadableRule(rule, str(error)) from error
    return ScheduleTiming(
        rule=decode_rule(rule),
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
    """How far the stored schedule has come."""
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
