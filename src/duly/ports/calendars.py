"""The store's interface for calendars."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from duly.domain.schedules.calendars import StoredCalendar
from duly.domain.schedules.revisions import Revision, Unclaimed
from duly.domain.schedules.schedule import StoredSchedule
from duly.domain.time.business_days import BusinessDays

Recompute = Callable[
    [StoredSchedule, BusinessDays, datetime], Callable[[Unclaimed], Revision] | None
]
"""Decides how a schedule changes with the days of its calendar; None if it does not."""


class Calendars(Protocol):
    """The calendars of one namespace."""

    async def get(self, name: str) -> StoredCalendar:
        """One calendar, or NotFound."""

    async def page(self, after: str, limit: int) -> list[tuple[StoredCalendar, int]]:
        """A page of calendars by name, each with the number of schedules that use it."""

    async def set(
        self,
        name: str,
        decide: Callable[[StoredCalendar | None], BusinessDays],
        recompute: Recompute,
        actor: str,
    ) -> tuple[StoredCalendar, str, int]:
        """Create or change a calendar; `decide` gets the present one and returns the days.

        Returns it, what changed (created, changed or unchanged), and how many schedules have
        another next occurrence. Atomic: the schedules that use it change with it, or InvalidInput
        names one of which nothing would be left, and nothing changes.
        """

    async def remove(
        self, name: str, actor: str, check: Callable[[StoredCalendar], None]
    ) -> StoredCalendar:
        """Remove a calendar if `check` does not raise; Conflict if schedules use it."""
