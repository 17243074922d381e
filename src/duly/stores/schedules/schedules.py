"""Schedules on the books, as people read and change them.

Deciding is not done here. Whoever changes a schedule brings a function that decides; it is called
with the row locked, and what it returns is written in the same transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any

import msgspec

from duly.domain.schedules.planning import Drop, Planned
from duly.domain.schedules.revisions import Revision, Unclaimed
from duly.domain.schedules.schedule import Contents, StoredSchedule, no_schedule
from duly.domain.streams.policy import stream_of_schedule
from duly.domain.time.rules import Yearly, encode_rule
from duly.errors import Conflict, UnreadableRule
from duly.failpoints import hit
from duly.ports import Transaction, UnreadableSchedule, ZoneUse
from duly.stores.access.audit import note, note_each
from duly.stores.database import Database, Session
from duly.stores.deliveries.transactions import own
from duly.stores.endpoints.targets import Targets
from duly.stores.schedules.plans import make, progress_of, timing_of, write_plans
from duly.stores.schedules.plans import untouched as untouched_among
from duly.stores.streams import overlap_queues
from duly.stores.streams.members import Members

Decide = Callable[[StoredSchedule | None, datetime, Unclaimed], Revision | None]
New = tuple[str, Revision]
DecideNew = Callable[[datetime], Sequence[New]]


class Schedules:
    """The schedules of one namespace."""

    def __init__(
        self, database: Database, namespace: str, targets: Targets, hint: Callable[[], None]
    ) -> None:
        self._database = database
        self._namespace = namespace
        self._targets = targets
        self._hint = hint

    async def get(self, name: str) -> StoredSchedule:
        """One schedule, or NotFound; UnreadableRule when a newer version wrote it."""
        rows = await self._database.fetch_named(
            "schedules.get", namespace=self._namespace, name=name
        )
        if not rows:
            raise no_schedule(name)
        return schedule_of(rows[0])

    async def page(self, after: str, limit: int) -> list[StoredSchedule | UnreadableSchedule]:
        """Schedules by name; one that cannot be read hides no other."""
        rows = await self._database.fetch_named(
            "schedules.page", namespace=self._namespace, after=after, limit=limit
        )
        return [_readable(row) for row in rows]

    async def revise(
        self,
        name: str,
        decide: Decide,
        actor: str,
        detail: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> tuple[StoredSchedule | None, Revision | None]:
        """Change one schedule by what `decide` makes of it; returns it as it is now.

        Atomic: the row is locked while it is decided, and the deliveries it has on the books move
        with it, here or in the transaction that is given. None from `decide` changes nothing.
        """
        async with self._joined(transaction) as session:
            schedule, revision = await self._revise(session, name, decide)
            if revision is not None:
                action = f"schedule.{revision.action}"
                if schedule is not None and revision.action == "changed":
                    detail = await _with_unchanged(session, schedule, revision, detail)
                await note(session, self._namespace, actor, action, name, detail)
                await hit("schedule.middle")
            if revision is None or revision.action != "removed":
                schedule = await self._locked(session, name)
        await hit("schedule.after")
        return schedule, revision

    @asynccontextmanager
    async def _joined(self, transaction: Transaction | None) -> AsyncIterator[Session]:
        """A transaction by itself, or the one that is given, whose commit wakes the workers."""
        if transaction is None:
            async with self._database.together() as session:
                yield session
        else:
            joined = own(transaction, self._database)
            joined.after_commit = self._hint
            yield joined.session

    async def _revise(
        self, session: Session, name: str, decide: Decide
    ) -> tuple[StoredSchedule | None, Revision | None]:
        while True:
            schedule = await self._locked(session, name)
            unclaimed = Unclaimed() if schedule is None else await _unclaimed(session, schedule)
            revision = decide(schedule, await self._now(session), unclaimed)
            if revision is None:
                return schedule, None
            await hit("schedule.before")
            # A name that was free may be another creator's by now: then there is a row to lock.
            if await self._write(session, name, schedule, revision):
                return schedule, revision

    async def create_all(
        self, decide: DecideNew, actor: str, transaction: Transaction | None = None
    ) -> None:
        """Create many schedules, all or none; Conflict when one of the names is taken."""
        async with self._joined(transaction) as session:
            new = decide(await self._now(session))
            await hit("schedule.before")
            await self._create(session, new)
            action = f"schedule.{new[0][1].action}"
            await note_each(session, self._namespace, actor, action, [name for name, _ in new])
            await hit("schedule.middle")
        await hit("schedule.after")

    async def _create(self, session: Session, new: Sequence[New]) -> None:
        made = await self._insert(session, new)
        if taken := [name for name, _ in new if name not in made]:
            raise Conflict(f"there is a schedule {taken[0]!r} already; declare it to change it")
        await write_plans(session, [(made[name], revision.plan) for name, revision in new])

    async def unfinished(self, name: str, transaction: Transaction | None = None) -> list[str]:
        """Of its latest occurrences, those under way; the next one on the books is not."""
        async with self._joined(transaction) as session:
            schedule = await self._locked(session, name)
            return [] if schedule is None else await _unfinished(session, schedule)

    async def _locked(self, session: Session, name: str) -> StoredSchedule | None:
        rows = await session.fetch_named("schedules.lock", namespace=self._namespace, name=name)
        return schedule_of(rows[0]) if rows else None

    async def _now(self, session: Session) -> datetime:
        rows = await session.fetch("schedules.now", namespace=self._namespace)
        moment: datetime = rows[0][0]
        return moment

    async def _write(
        self, session: Session, name: str, schedule: StoredSchedule | None, revision: Revision
    ) -> bool:
        """Whether it was written: a name that is taken meanwhile is not."""
        if schedule is None:
            number = (await self._insert(session, [(name, revision)])).get(name)
            if number is None:
                return False
        elif revision.action == "removed":
            number = schedule.id
            await self._remove(session, schedule)
        else:
            number = schedule.id
            targets = await self._targets.numbers_within(session, [revision.contents.target])
            columns = _columns(revision, targets)
            await session.fetch(
                "schedules.change", "any", namespace=self._namespace, name=name, **columns
            )
        await write_plans(session, [(number, revision.plan)])
        return True

    async def _insert(self, session: Session, new: Sequence[New]) -> dict[str, int]:
        """The numbers of those that are new, by their names; their progress is written next."""
        targets = {revision.contents.target for _, revision in new}
        numbers = await self._targets.numbers_within(session, targets)
        rows = [{"name": name} | _columns(revision, numbers) for name, revision in new]
        columns = {each: [row[each] for row in rows] for each in rows[0]}
        made = await session.fetch_batch(
            "schedules.create", columns=columns, namespace=self._namespace
        )
        return {name: number for number, name in made}

    async def _remove(self, session: Session, schedule: StoredSchedule) -> None:
        # What waits for another attempt, or its turn, is pending too, and nobody would expect it.
        await overlap_queues.cancel(session, self._namespace, stream_of_schedule(schedule.name))
        waiting = await _unfinished(session, schedule)
        if waiting:
            columns = {"id": waiting, "how": [Drop.CANCELLED.value] * len(waiting)}
            await session.fetch_batch("schedules.drop", columns=columns)
        if schedule.contents.stream is not None:
            await self._leave_line(session, waiting)
        await session.fetch("schedules.remove", namespace=self._namespace, name=schedule.name)

    async def _leave_line(self, session: Session, waiting: Sequence[str]) -> None:
        """Cancel those that wait in the line of a stream that others use, too."""
        members = Members(self._database, self._namespace)
        for id in waiting:
            # One that a worker may have claimed goes on.
            with suppress(Conflict):
                await members.cancel_within(session, id)

    async def add_runs(
        self, schedule: StoredSchedule, planned: Sequence[Planned], actor: str
    ) -> int:
        """Make occurrences beside the plan, as a person asked; returns how many were new."""
        async with self._database.together() as session:
            # Before the occurrences, as a planner does, or the two would wait for each other.
            rows = await session.fetch_named(
                "schedules.lock", namespace=self._namespace, name=schedule.name
            )
            if not rows or rows[0]["id"] != schedule.id:
                # It was removed meanwhile: nothing would be made, and nobody told.
                raise no_schedule(schedule.name)
            made = await make(session, [(schedule.id, each) for each in planned])
            if made:
                detail = {"made": made, "from": planned[0].occurrence, "to": planned[-1].occurrence}
                await note(session, self._namespace, actor, "schedule.run", schedule.name, detail)
            await hit("schedule.middle")
        return made

    async def unfinished_before(self, delivery: str, stream: str) -> int:
        """How many earlier occurrences of its schedule are unfinished, in its stream or not."""
        rows = await self._database.fetch(
            "schedules.unfinished_before",
            "any",
            id=delivery,
            namespace=self._namespace,
            stream=stream,
        )
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


def _readable(row: Mapping[str, Any]) -> StoredSchedule | UnreadableSchedule:
    try:
        return schedule_of(row)
    except UnreadableRule as error:
        return UnreadableSchedule(row["name"], str(error))


async def _unclaimed(session: Session, schedule: StoredSchedule) -> Unclaimed:
    made_id, late = schedule.progress.made_id, None
    if isinstance(schedule.timing.rule, Yearly) and schedule.progress.fired is not None:
        rows = await session.fetch(
            "schedules.occurrence", schedule=schedule.id, occurrence=schedule.progress.fired
        )
        late = rows[0][0] if rows else None
    found = await untouched_among(session, [made_id, late])
    return Unclaimed(made_id in found, late if late in found else None)


async def _with_unchanged(
    session: Session, schedule: StoredSchedule, revision: Revision, detail: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """The detail of an edit, with the deliveries that it came too late for."""
    made_id = revision.plan.progress.made_id
    rows = await session.fetch("schedules.unfinished", schedule=schedule.id, next=made_id)
    moved = {each.id for each in (*revision.plan.move, *revision.plan.make)}
    unchanged = [row[0] for row in rows if row[0] not in moved]
    return {**(detail or {}), "unchanged": unchanged} if unchanged else detail


async def _unfinished(session: Session, schedule: StoredSchedule) -> list[str]:
    rows = await session.fetch(
        "schedules.unfinished", schedule=schedule.id, next=schedule.progress.made_id
    )
    return [row[0] for row in rows]


def _columns(revision: Revision, numbers: Mapping[str, int]) -> dict[str, Any]:
    timing, contents = revision.timing, revision.contents
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


def schedule_of(row: Mapping[str, Any]) -> StoredSchedule:
    """A schedule as it stands; UnreadableRule when a newer version wrote it."""
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
    return StoredSchedule(
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
