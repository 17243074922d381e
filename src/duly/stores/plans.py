"""The planner's side of schedules: those that are due, locked, and what was decided about them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from duly.domain.errors import UnreadableRule
from duly.domain.planning import Plan, Planned
from duly.domain.rules import decode_rule
from duly.domain.schedule import CatchUp, Overlap, Progress, Timing
from duly.failpoints import hit
from duly.ports import DueSchedule
from duly.stores.database import Database, Session


class Plans:
    """What planners of one namespace share; any number of them may sit at once."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def clock(self) -> tuple[datetime, datetime | None]:
        """The store's present, and the moment up to which anyone has planned."""
        rows = await self._database.fetch("schedules.now", "any", namespace=self._namespace)
        return rows[0][0], rows[0][1]

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
        rows = await self._database.fetch(
            "schedules.next", "any", namespace=self._namespace, passed_over=list(passed_over)
        )
        return rows[0][0] if rows else None

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
            sitting = Sitting(session, rows)
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

    def __init__(self, session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
        self._session = session
        self.due = [_due(row) for row in rows]
        self.plans: list[tuple[int, Plan]] = []

    async def untouched(self, ids: Sequence[str | None]) -> set[str]:
        """Of these deliveries, those that nobody has claimed; nobody can until the end."""
        return await untouched(self._session, ids)

    def write(self, schedule: int, plan: Plan) -> None:
        """Have the plan written when the sitting ends."""
        self.plans.append((schedule, plan))


def _due(row: Mapping[str, Any]) -> DueSchedule:
    try:
        timing, problem = timing_of(row), None
    except (UnreadableRule, ValueError) as error:
        timing, problem = None, str(error)
    return DueSchedule(row["id"], row["name"], progress_of(row), timing, problem)


async def untouched(session: Session, ids: Sequence[str | None]) -> set[str]:
    """Of these deliveries, those that nobody has claimed; they stay locked."""
    known = [id for id in ids if id is not None]
    if not known:
        return set()
    rows = await session.fetch_batch("schedules.untouched", columns={"id": known})
    return {row[0] for row in rows}


async def write_plans(session: Session, plans: Sequence[tuple[int, Plan]]) -> None:
    """Write what was decided about schedules, given by their numbers."""
    moves = [(id, plan.move) for id, plan in plans if plan.move is not None]
    drops = [plan.drop for _, plan in plans if plan.drop is not None]
    if moves:
        await session.fetch_batch("schedules.move", columns=_planned_columns(moves))
    if drops:
        columns: dict[str, Sequence[Any]] = {
            "id": [id for id, _ in drops],
            "how": [how.value for _, how in drops],
        }
        await session.fetch_batch("schedules.drop", columns=columns)
    await make(session, [(id, each) for id, plan in plans for each in plan.make])
    steps = [(id, plan.progress) for id, plan in plans]
    await session.fetch_batch("schedules.advance", columns=_progress_columns(steps))


async def make(session: Session, planned: Sequence[tuple[int, Planned]]) -> int:
    """Put occurrences on the books; returns how many were not there already."""
    if not planned:
        return 0
    rows = await session.fetch_batch("schedules.make", columns=_planned_columns(planned))
    return int(rows[0][0])


def _planned_columns(planned: Sequence[tuple[int, Planned]]) -> dict[str, Sequence[Any]]:
    return {
        "schedule": [id for id, _ in planned],
        "id": [each.id for _, each in planned],
        "occurrence": [each.occurrence for _, each in planned],
        "due_at": [each.due_at for _, each in planned],
        "occasion": [each.occasion for _, each in planned],
    }


def _progress_columns(steps: Sequence[tuple[int, Progress]]) -> dict[str, Sequence[Any]]:
    columns: dict[str, Sequence[Any]] = {"id": [id for id, _ in steps]}
    for name in Progress.__struct_fields__:
        columns[name] = [getattr(progress, name) for _, progress in steps]
    return columns


def timing_of(row: Mapping[str, Any]) -> Timing:
    """When the stored schedule is due; UnreadableRule when a newer version wrote it."""
    return Timing(
        rule=decode_rule(row["rule"]),
        catch_up=CatchUp(row["catch_up"]),
        window=row["catch_up_window"],
        cap=row["catch_up_cap"],
        overlap=Overlap(row["overlap"]),
        starts_at=row["starts_at"],
        ends_at=row["ends_at"],
        max_runs=row["max_runs"],
        jitter=row["jitter"],
    )


def progress_of(row: Mapping[str, Any]) -> Progress:
    """How far the stored schedule has come."""
    found = {name: row[name] for name in Progress.__struct_fields__}
    made_id = found["made_id"]
    return Progress(**found | {"made_id": None if made_id is None else str(made_id)})
