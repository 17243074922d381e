"""Schedules on the books, as people read and change them.

Deciding is not done here. Whoever changes a schedule brings a function that decides; it is called
with the row locked, and what it returns is written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from duly.domain.errors import UnreadableRule
from duly.domain.planning import Planned
from duly.domain.revisions import Revision
from duly.domain.rules import encode_rule
from duly.domain.schedule import Contents, Schedule, no_schedule
from duly.failpoints import hit
from duly.ports import UnreadableSchedule, ZoneUse
from duly.stores.audit import note
from duly.stores.database import Database, Session
from duly.stores.plans import make, progress_of, timing_of, write_plans
from duly.stores.plans import untouched as untouched_among
from duly.stores.targets import Targets

Decide = Callable[[Schedule | None, datetime, bool], Revision | None]


class Schedules:
    """The schedules of one namespace."""

    def __init__(self, database: Database, namespace: str, targets: Targets) -> None:
        self._database = database
        self._namespace = namespace
        self._targets = targets

    async def get(self, name: str) -> Schedule:
        """One schedule, or NotFound; UnreadableRule when a newer version wrote it."""
        rows = await self._database.fetch_named(
            "schedules.get", namespace=self._namespace, name=name
        )
        if not rows:
            raise no_schedule(name)
        return _schedule(rows[0])

    async def page(self, after: str, limit: int) -> list[Schedule | UnreadableSchedule]:
        """Schedules by name; one that cannot be read hides no other."""
        rows = await self._database.fetch_named(
            "schedules.page", namespace=self._namespace, after=after, limit=limit
        )
        return [_readable(row) for row in rows]

    async def revise(
        self, name: str, decide: Decide, actor: str, detail: Mapping[str, Any] | None = None
    ) -> tuple[Schedule | None, Revision | None]:
        """Change one schedule by what `decide` makes of it; returns it as it is now.

        Atomic: the row is locked while it is decided, and the deliveries it has on the books move
        with it. None from `decide` changes nothing.
        """
        try:
            schedule, revision = await self._revise(name, decide, actor, detail)
        except self._database.refusals:
            # A name that was free may be another creator's by now: then there is a row to lock.
            schedule, revision = await self._revise(name, decide, actor, detail)
        await hit("schedule.after")
        if revision is not None and revision.action == "removed":
            return schedule, revision
        return await self.get(name), revision

    async def _revise(
        self, name: str, decide: Decide, actor: str, detail: Mapping[str, Any] | None
    ) -> tuple[Schedule | None, Revision | None]:
        async with self._database.together() as session:
            schedule = await self._locked(session, name)
            untouched = schedule is not None and bool(
                await untouched_among(session, [schedule.progress.made_id])
            )
            revision = decide(schedule, await self._now(session), untouched)
            if revision is not None:
                await hit("schedule.before")
                await self._write(session, name, schedule, revision)
                await note(
                    session, self._namespace, actor, f"schedule.{revision.action}", name, detail
                )
                await hit("schedule.middle")
        return schedule, revision

    async def _locked(self, session: Session, name: str) -> Schedule | None:
        rows = await session.fetch_named("schedules.lock", namespace=self._namespace, name=name)
        return _schedule(rows[0]) if rows else None

    async def _now(self, session: Session) -> datetime:
        rows = await session.fetch("schedules.now", namespace=self._namespace)
        moment: datetime = rows[0][0]
        return moment

    async def _write(
        self, session: Session, name: str, schedule: Schedule | None, revision: Revision
    ) -> None:
        if revision.action == "removed":
            assert schedule is not None
            await write_plans(session, [(schedule.id, revision.plan)])
            await session.fetch("schedules.remove", namespace=self._namespace, name=name)
            return
        statement = "schedules.create" if schedule is None else "schedules.change"
        columns = await self._columns(revision)
        rows = await session.fetch(
            statement, "any", namespace=self._namespace, name=name, **columns
        )
        await write_plans(session, [(rows[0][0], revision.plan)])

    async def _columns(self, revision: Revision) -> dict[str, Any]:
        timing, contents = revision.timing, revision.contents
        numbers = await self._targets.numbers([contents.target], create=False)
        return {
            "rule": encode_rule(timing.rule),
            "catch_up": timing.catch_up.value,
            "catch_up_window": timing.window,
            "catch_up_cap": timing.cap,
            "overlap": timing.overlap.value,
            "starts_at": timing.starts_at,
            "ends_at": timing.ends_at,
            "max_runs": timing.max_runs,
            "jitter": timing.jitter,
            "target": numbers[contents.target],
            "address": contents.address,
            "payload": contents.payload,
            "priority": contents.priority,
            "stream": contents.stream,
            "expires_after": contents.expires_after,
            "retry": contents.retry,
            "tags": msgspec.json.encode(contents.tags).decode() if contents.tags else None,
            "paused_at": revision.paused_at,
            "pause_reason": revision.pause_reason,
        }

    async def add_runs(self, schedule: Schedule, planned: Sequence[Planned], actor: str) -> int:
        """Make occurrences beside the plan, as a person asked; returns how many were new."""
        async with self._database.together() as session:
            # Before the occurrences, as a planner does, or the two would wait for each other.
            await session.fetch_named(
                "schedules.lock", namespace=self._namespace, name=schedule.name
            )
            made = await make(session, [(schedule.id, each) for each in planned])
            if made:
                detail = {"made": made, "from": planned[0].occurrence, "to": planned[-1].occurrence}
                await note(session, self._namespace, actor, "schedule.run", schedule.name, detail)
            await hit("schedule.middle")
        return made

    async def unfinished_before(self, delivery: str) -> int:
        """How many earlier occurrences of the delivery's schedule are unfinished."""
        rows = await self._database.fetch("schedules.unfinished_before", "any", id=delivery)
        return int(rows[0][0])

    async def zones(self) -> list[ZoneUse]:
        """From which data of which zones something was computed."""
        rows = await self._database.fetch("schedules.zones", "any", namespace=self._namespace)
        return [ZoneUse(*row) for row in rows]

    async def of_zone(self, use: ZoneUse, after: str, limit: int) -> list[str]:
        """The names of schedules that were computed from that data."""
        rows = await self._database.fetch(
            "schedules.of_zone",
            "any",
            namespace=self._namespace,
            zone=use.zone,
            zone_hash=use.hash,
            after=after,
            limit=limit,
        )
        return [row[0] for row in rows]

    async def without_next(self, after: str, batch: int) -> tuple[list[str], str | None]:
        """Schedules of one slice that lack their next occurrence, and where to go on."""
        rows = await self._database.fetch(
            "schedules.without_next", "any", namespace=self._namespace, after=after, batch=batch
        )
        last, size, missing = rows[0]
        return msgspec.json.decode(missing), last if size == batch else None


def _readable(row: Mapping[str, Any]) -> Schedule | UnreadableSchedule:
    try:
        return _schedule(row)
    except UnreadableRule as error:
        return UnreadableSchedule(row["name"], str(error))


def _schedule(row: Mapping[str, Any]) -> Schedule:
    contents = Contents(
        target=row["target_name"],
        address=row["address"],
        payload=None if row["payload"] is None else bytes(row["payload"]),
        priority=row["priority"],
        stream=row["stream"],
        expires_after=row["expires_after"],
        retry=row["retry"],
        tags=tuple(msgspec.json.decode(row["tags"])) if row["tags"] else (),
    )
    return Schedule(
        id=row["id"],
        name=row["name"],
        version=row["version"],
        timing=timing_of(row),
        contents=contents,
        progress=progress_of(row),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        paused_at=row["paused_at"],
        pause_reason=row["pause_reason"],
    )
