"""Calendars: the closed days of a namespace, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta


class Weekday(StrEnum):
    """A day of the week."""

    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"


DEFAULT_WEEKEND = (Weekday.SATURDAY, Weekday.SUNDAY)
Closed = Mapping[date, str] | Iterable[date]
"""Closed dates, with or without their labels."""


class CalendarSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wanted days of a calendar; what is left out has its default."""

    EXAMPLE: ClassVar = {"closed": {"2026-12-25": "Christmas", "2026-12-26": ""}}
    closed: Annotated[
        dict[date, str], Meta(description="closed dates, each with a label, which may be empty")
    ] = {}
    weekend: Annotated[
        tuple[Weekday, ...], Meta(description="the weekdays that are closed; may be empty")
    ] = DEFAULT_WEEKEND


class Calendar(CalendarSpec, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A calendar with its closed days."""

    name: str
    version: int
    created_at: datetime
    updated_at: datetime


class ChangedCalendar(Calendar, frozen=True, kw_only=True):
    """A calendar that was set, and what that changed."""

    change: str
    """created, changed or unchanged."""
    moved: int = 0
    """How many schedules have another next moment."""


class CalendarSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A calendar as a list shows it."""

    name: str
    weekend: tuple[Weekday, ...]
    dates: int
    """How many dates are closed."""
    last_date: date | None
    """The last of them: later years have to be added."""
    schedules: int
    """How many schedules use it."""
    updated_at: datetime
