"""Stored schedules: read and changed.

Nothing is decided here: the caller of a change passes a function that decides. It is called with
the row locked, and its result is written in the same transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any

import msgspec

from duly.domain.endpoints.sealed_addresses import SealedAddresses
from duly.domain.schedules.calendars import StoredCalendar
from duly.domain.schedules.origin import Origin
from duly.domain.schedules.planning import Drop, Planned
from duly.domain.schedules.revisions import Revision, Unclaimed
from duly.domain.schedules.schedule import StoredSchedule, no_schedule
from duly.domain.streams.policy import stream_of_schedule
from duly.domain.time.rules import Yearly
from duly.errors import Conflict, UnreadableRule
from duly.failpoints import hit
from duly.ports import Transaction, UnreadableSchedule, ZoneUse
from duly.records.schedule import EVERY_SCHEDULE, ScheduleFilter, ScheduleState
from duly.stores.access.audit import note, note_each
from duly.stores.database import Database, Session
from duly.stores.deliveries.transactions import own
from duly.stores.endpoints.targets import Targets
from duly.stores.schedules.calendar_rows import require_unchanged
from duly.stores.schedules.plans import make, write_plans
from duly.stores.schedules.plans import untouched as untouched_among
from duly.stores.schedules.rows import columns_of, schedule_of
from duly.stores.streams import overlap_queues
from duly.stores.streams.members import Members

Decide = Callable[[StoredSchedule | None, datetime, Unclaimed], Revision | None]
DecideOrigin = Callable[[Origin | None], Origin | None]
Condition = Callable[[Session], Awaitable[bool]]
New = tuple[str, Revision]
DecideNew = Callable[[datetime], Sequence[New]]
BATCH = 500
"""How many schedules of a calendar are read at once."""


class Schedules:
    """The schedules of one namespace."""

    def __init__(
        self,
        database: Database,
        namespace: str,
        targets: Targets,
        hint: Callable[[], None],
        addresses: SealedAddresses,
    ) -> None:
        self._database = database
        self._namespace = namespace
        self._targets = targets
        self._hint = hint
        self._addresses = addresses

    async def get(self, name: str) -> StoredSchedule:
        """One schedule, or NotFound; UnreadableRule if a newer version wrote it."""
        rows = await self._database.fetch_named(
            "schedules.get", namespace=self._namespace, name=name
        )
        if not rows:
            raise no_schedule(name)
        return schedule_of(rows[0], self._addresses)

    async def page(
        self, after: str, limit: int, filter: ScheduleFilter = EVERY_SCHEDULE
    ) -> list[StoredSchedule | UnreadableSchedule]:
        """Schedules by name; one that cannot be read is returned as UnreadableSchedule."""
        wanted = msgspec.structs.asdict(filter)
        if filter.state is ScheduleState.UNREADABLE:
            wanted["state"] = None
        rows = await self._database.fetch_named(
            "schedules.page", namespace=self._namespace, after=after, limit=limit, **wanted
        )
        return [_readable(row, self._addresses) for row in rows]

    async def revise(
        self,
        name: str,
        decide: Decide,
        actor: str,
        detail: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
        *,
        origin: DecideOrigin | None = None,
        only_if: Condition | None = None,
        calendars: Collection[StoredCalendar] = (),
    ) -> tuple[StoredSchedule | None, Revision | None]:
        """Change one schedule with `decide`; returns the changed schedule, and the revision.

        Atomic: the row is locked while `decide` runs, and the planned deliveries change with it, in
        the given transaction or in a new one. If `decide` returns None, nothing changes but the
        `origin`. `only_if` is a condition that is checked with the row locked. CalendarChanged if
        one of the `calendars` is another by now.
        """
        async with self._in_transaction(transaction) as session:
            await require_unchanged(session, self._namespace, calendars)
            schedule, revision = await self._revise(session, name, decide, only_if)
            if origin is not None:
                await self._write_origin(session, name, schedule, origin)
            if revision is not None:
                action = f"schedule.{revision.action}"
                if schedule is not None and revision.action == "changed":
                    detail = await _with_unchanged(session, schedule, revision, detail)
                await note(session, self._namespace, actor, action, name, detail)
                await hit("schedule.middle")
            if revision is None or revision.action != "removed":
                schedule = await self._lock(session, name)
        await hit("schedule.after")
        return schedule, revision

    @asynccontextmanager
    async def _in_transaction(self, transaction: Transaction | None) -> AsyncIterator[Session]:
        """A new transaction, or the given one, whose commit then wakes the workers."""
        if transaction is None:
            async with self._database.together() as session:
                yield session
        else:
            joined = own(transaction, self._database)
            joined.after_commit = self._hint
            yield joined.session

    async def _revise(
        self, session: Session, name: str, decide: Decide, only_if: Condition | None
    ) -> tuple[StoredSchedule | None, Revision | None]:
        while True:
            schedule = await self._lock(session, name)
            if only_if is not None and not await only_if(session):
                return schedule, None
            unclaimed = Unclaimed() if schedule is None else await _unclaimed(session, schedule)
            revision = decide(schedule, await self.now(session), unclaimed)
            if revision is None:
                return schedule, None
            await hit("schedule.before")
            # Another caller may have created the name meanwhile: then there is a row to lock.
            if await self._write(session, name, schedule, revision):
                return schedule, revision

    async def _write_origin(
        self, session: Session, name: str, was: StoredSchedule | None, decide: DecideOrigin
    ) -> None:
        before = None if was is None else was.origin
        if (after := decide(before)) != before:
            await session.fetch(
                "declarations.declare",
                "any",
                namespace=self._namespace,
                name=name,
                program=None if after is None else after.program,
                place=None if after is None else after.place,
            )

    async def of_calendar(self, session: Session, calendar: str) -> AsyncIterator[StoredSchedule]:
        """The schedules that use a calendar, locked; those that cannot be read are skipped."""
        after = ""
        while rows := await session.fetch_named(
            "schedules.of_calendar",
            namespace=self._namespace,
            calendar=calendar,
            after=after,
            limit=BATCH,
        ):
            for found in [_readable(row, self._addresses) for row in rows]:
                if isinstance(found, StoredSchedule):
                    yield found
            after = rows[-1]["name"]

    async def revise_locked(
        self,
        session: Session,
        schedule: StoredSchedule,
        decide: Callable[[Unclaimed], Revision],
        actor: str,
        detail: Mapping[str, Any],
    ) -> None:
        """Change a schedule that is locked already."""
        revision = decide(await _unclaimed(session, schedule))
        await self._write(session, schedule.name, schedule, revision)
        action = f"schedule.{revision.action}"
        await note(session, self._namespace, actor, action, schedule.name, detail)

    async def create_all(
        self,
        decide: DecideNew,
        actor: str,
        transaction: Transaction | None = None,
        *,
        calendars: Collection[StoredCalendar] = (),
    ) -> None:
        """Create many schedules, all or none; Conflict if one of the names is taken."""
        async with self._in_transaction(transaction) as session:
            await require_unchanged(session, self._namespace, calendars)
            new = decide(await self.now(session))
            await hit("schedule.before")
            await self._create(session, new)
            action = f"schedule.{new[0][1].action}"
            await note_each(session, self._namespace, actor, action, [name for name, _ in new])
            await hit("schedule.middle")
        await hit("schedule.after")

    async def _create(self, session: Session, new: Sequence[New]) -> None:
        created = await self._insert(session, new)
        if taken := [name for name, _ in new if name not in created]:
            raise Conflict(f"schedule {taken[0]!r} exists already; declare it to change it")
        await write_plans(session, [(created[name], revision.plan) for name, revision in new])

    async def unfinished(self, name: str, transaction: Transaction | None = None) -> list[str]:
        """The unfinished deliveries among its latest occurrences, without the next one planned."""
        async with self._in_transaction(transaction) as session:
            schedule = await self._lock(session, name)
            return [] if schedule is None else await _unfinished(session, schedule)

    async def _lock(self, session: Session, name: str) -> StoredSchedule | None:
        rows = await session.fetch_named("schedules.lock", namespace=self._namespace, name=name)
        return schedule_of(rows[0], self._addresses) if rows else None

    async def now(self, session: Session) -> datetime:
        """The store's time."""
        rows = await session.fetch("schedules.now", namespace=self._namespace)
        moment: datetime = rows[0][0]
        return moment

    async def _write(
        self, session: Session, name: str, schedule: StoredSchedule | None, revision: Revision
    ) -> bool:
        """Write a revision; False if it creates a name that was taken meanwhile."""
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
            columns = columns_of(revision, targets, self._addresses)
            await session.fetch(
                "schedules.change", "any", namespace=self._namespace, name=name, **columns
            )
        await write_plans(session, [(number, revision.plan)])
        return True

    async def _insert(self, session: Session, new: Sequence[New]) -> dict[str, int]:
        """Insert schedules whose names are free; returns their numbers by name.

        Their progress is written by the caller.
        """
        targets = {revision.contents.target for _, revision in new}
        numbers = await self._targets.numbers_within(session, targets)
        rows = [
            {"name": name} | columns_of(revision, numbers, self._addresses)
            for name, revision in new
        ]
        columns = {each: [row[each] for row in rows] for each in rows[0]}
        inserted = await session.fetch_batch(
            "schedules.create", columns=columns, namespace=self._namespace
        )
        return {name: number for number, name in inserted}

    async def _remove(self, session: Session, schedule: StoredSchedule) -> None:
        # Also cancel occurrences that wait for a retry or for their turn in a stream.
        await overlap_queues.cancel(session, self._namespace, stream_of_schedule(schedule.name))
        waiting = await _unfinished(session, schedule)
        if waiting:
            columns = {"id": waiting, "how": [Drop.CANCELLED.value] * len(waiting)}
            await session.fetch_batch("schedules.drop", columns=columns)
        if schedule.contents.stream is not None:
            await self._cancel_in_stream(session, waiting)
        await session.fetch("schedules.remove", namespace=self._namespace, name=schedule.name)

    async def _cancel_in_stream(self, session: Session, waiting: Sequence[str]) -> None:
        """Also cancel those that wait in a stream shared with other deliveries."""
        members = Members(self._database, self._namespace)
        for id in waiting:
            # Conflict: a worker may have claimed it, so it continues.
            with suppress(Conflict):
                await members.cancel_within(session, id)

    async def add_runs(
        self, schedule: StoredSchedule, planned: Sequence[Planned], actor: str
    ) -> int:
        """Create occurrences for an operator; returns how many were new."""
        async with self._database.together() as session:
            # Lock the schedule before the occurrences, as a planner does, to avoid a deadlock.
            rows = await session.fetch_named(
                "schedules.lock", namespace=self._namespace, name=schedule.name
            )
            if not rows or rows[0]["id"] != schedule.id:
                # It was removed meanwhile: otherwise nothing would be created, without an error.
                raise no_schedule(schedule.name)
            made = await make(session, [(schedule.id, each) for each in planned])
            if made:
                detail = {"made": made, "from": planned[0].occurrence, "to": planned[-1].occurrence}
                await note(session, self._namespace, actor, "schedule.run", schedule.name, detail)
            await hit("schedule.middle")
        return made

    async def unfinished_before(self, delivery: str, stream: str) -> int:
        """How many earlier occurrences of the delivery's schedule are unfinished.

        Those that wait in the stream count as one.
        """
        rows = await self._database.fetch(
            "schedules.unfinished_before",
            "any",
            id=delivery,
            namespace=self._namespace,
            stream=stream,
        )
        return int(rows[0][0])

    async def zones(self) -> list[ZoneUse]:
        """The versions of time zone data from which schedules were computed."""
        rows = await self._database.fetch("schedules.zones", "any", namespace=self._namespace)
        return [ZoneUse(*row) for row in rows]

    async def of_zone(self, use: ZoneUse, after: str, limit: int) -> list[str]:
        """The names of schedules that were computed from that time zone data."""
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
        """Schedules of one slice without their next occurrence, and the next slice's start."""
        rows = await self._database.fetch(
            "schedules.without_next", "any", namespace=self._namespace, after=after, batch=batch
        )
        last, size, missing = rows[0]
        return msgspec.json.decode(missing), last if size == batch else None


def _readable(
    row: Mapping[str, Any], addresses: SealedAddresses
) -> StoredSchedule | UnreadableSchedule:
    try:
        return schedule_of(row, addresses)
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
    """The detail of an edit, with the unfinished deliveries that it no longer changes."""
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
