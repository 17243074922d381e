"""Calendars: stored, and changed together with the schedules that use them."""

from __future__ import annotations

from collections.abc import Callable

from duly.domain.checks import MOST_SHOWN
from duly.domain.schedules.calendars import StoredCalendar, in_use, no_calendar
from duly.domain.time.business_days import BusinessDays, encode_days
from duly.failpoints import hit
from duly.ports.calendars import Recompute
from duly.stores.access.audit import note
from duly.stores.database import Database, Session
from duly.stores.schedules.calendar_rows import calendar_of
from duly.stores.schedules.schedules import Schedules


class Calendars:
    """The calendars of one namespace."""

    def __init__(self, database: Database, namespace: str, schedules: Schedules) -> None:
        self._database = database
        self._namespace = namespace
        self._schedules = schedules

    async def get(self, name: str) -> StoredCalendar:
        """One calendar, or NotFound."""
        rows = await self._database.fetch_named(
            "calendars.get", namespace=self._namespace, name=name
        )
        if not rows:
            raise no_calendar(name)
        return calendar_of(rows[0])

    async def page(self, after: str, limit: int) -> list[tuple[StoredCalendar, int]]:
        """A page of calendars by name, each with the number of schedules that use it."""
        rows = await self._database.fetch_named(
            "calendars.page", namespace=self._namespace, after=after, limit=limit
        )
        return [(calendar_of(row), row["schedules"]) for row in rows]

    async def set(
        self,
        name: str,
        decide: Callable[[StoredCalendar | None], BusinessDays],
        recompute: Recompute,
        actor: str,
    ) -> tuple[StoredCalendar, str, int]:
        """Create or change a calendar, and in the same transaction the schedules that use it.

        Returns it, what changed, and how many schedules have another next occurrence.
        """
        async with self._database.together() as session:
            was = await self._lock(session, name)
            days = decide(was)
            if was is not None and was.days == days:
                return was, "unchanged", 0
            change, moved = "created" if was is None else "changed", 0
            if was is not None and not _closes_the_same(was.days, days):
                moved = await self._recompute(session, name, days, recompute, actor)
                await session.fetch("calendars.replan", namespace=self._namespace, name=name)
            await hit("schedule.middle")
            written = await self._write(session, name, days, was)
            if written:
                detail = {"dates": len(days.closed), "moved": moved}
                await note(session, self._namespace, actor, f"calendar.{change}", name, detail)
        if not written:
            # Another caller has created the name meanwhile: now there is a row to lock.
            return await self.set(name, decide, recompute, actor)
        return await self.get(name), change, moved

    async def _recompute(
        self, session: Session, name: str, days: BusinessDays, recompute: Recompute, actor: str
    ) -> int:
        """Change the schedules that use it; their rules still have the old days."""
        now, changed = await self._schedules.now(session), 0
        async for schedule in self._schedules.of_calendar(session, name):
            decide = recompute(schedule, days, now)
            if decide is not None:
                detail = {"calendar": name}
                await self._schedules.revise_locked(session, schedule, decide, actor, detail)
                changed += 1
        return changed

    async def _write(
        self, session: Session, name: str, days: BusinessDays, was: StoredCalendar | None
    ) -> bool:
        statement = "calendars.create" if was is None else "calendars.change"
        rows = await session.fetch(
            statement, "any", namespace=self._namespace, name=name, days=encode_days(days)
        )
        return bool(rows)

    async def remove(
        self, name: str, actor: str, check: Callable[[StoredCalendar], None]
    ) -> StoredCalendar:
        """Remove a calendar if `check` does not raise; Conflict if schedules use it."""
        async with self._database.together() as session:
            was = await self._lock(session, name)
            if was is None:
                raise no_calendar(name)
            check(was)
            rows = await session.fetch(
                "calendars.used_by", namespace=self._namespace, name=name, limit=MOST_SHOWN + 1
            )
            if rows:
                raise in_use(name, [row[0] for row in rows])
            await session.fetch("calendars.remove", "any", namespace=self._namespace, name=name)
            await note(session, self._namespace, actor, "calendar.removed", name)
        return was

    async def _lock(self, session: Session, name: str) -> StoredCalendar | None:
        rows = await session.fetch_named("calendars.lock", namespace=self._namespace, name=name)
        return calendar_of(rows[0]) if rows else None


def _closes_the_same(was: BusinessDays, days: BusinessDays) -> bool:
    """Whether only labels differ."""
    return was.weekend == days.weekend and was.closed.keys() == days.closed.keys()
