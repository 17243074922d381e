"""Schedules: how they catch up and overlap."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

DEFAULT_CAP = 1000


class CatchUp(StrEnum):
    """What happens to missed occurrences; those of `at` and `yearly` are always delivered."""

    ALL = "all"
    LATEST = "latest"
    SKIP = "skip"


class Overlap(StrEnum):
    """What happens to an occurrence that is due while an earlier one is unfinished."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"


class ScheduleSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as the list shows it."""

    name: str
    state: str
    rule: str | None = None
    target: str | None = None
    next_at: datetime | None = None
    last_fired_at: datetime | None = None
    runs: int | None = None
    merged: int | None = None
    skipped: int | None = None
    problem: str | None = None
