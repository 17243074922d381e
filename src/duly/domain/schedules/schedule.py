"""A schedule: when it is due, what it delivers, and how far it has come."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from duly.domain.checks import DEFAULT_PRIORITY
from duly.domain.time.occurrences import Occurrence
from duly.domain.time.rules import At, Rule, Yearly
from duly.domain.time.zones import fingerprint, zone_data_version
from duly.errors import NotFound

DELIVERY_ID = "{{delivery.id}}"
"""A text in a schedule's payload in whose place each delivery has its own id."""
DEFAULT_CAP = 1000
LARGEST_CAP = 100_000


class CatchUp(StrEnum):
    """What becomes of the occurrences that were missed; `at` and `yearly` are always made up."""

    ALL = "all"
    LATEST = "latest"
    SKIP = "skip"


class Overlap(StrEnum):
    """What becomes of an occurrence that falls due while an earlier one is unfinished."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"


class ScheduleTiming(msgspec.Struct, frozen=True, kw_only=True):
    """When a schedule is due, and what it does about what it missed."""

    rule: Rule
    catch_up: CatchUp = CatchUp.LATEST
    window: float | None = None
    """Missed occurrences older than so many seconds are not made up."""
    cap: int = DEFAULT_CAP
    overlap: Overlap = Overlap.ALLOW
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_runs: int | None = None
    jitter: float = 0.0

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the rule decides: no limits, no spread, nothing skipped."""
        return (
            self.window is None
            and self.ends_at is None
            and self.max_runs is None
            and self.starts_at is None
            and not self.jitter
            and self.catch_up is not CatchUp.SKIP
        )

    @property
    def is_never_missed(self) -> bool:
        """Whether every occurrence is delivered, however late: no window and no cap applies."""
        return isinstance(self.rule, At | Yearly)

    @property
    def makes_up_all(self) -> bool:
        """Whether missed occurrences are delivered one by one."""
        return self.catch_up is CatchUp.ALL or self.is_never_missed


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule delivers, and where. Without a payload it is the occasion itself."""

    target: str
    address: str | None = None
    payload: bytes | None = None
    priority: int = DEFAULT_PRIORITY
    stream: str | None = None
    expires_after: float | None = None
    retry: str | None = None
    tags: tuple[str, ...] = ()


class ScheduleProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a schedule has come.

    `made` is the occurrence on the books, `fired` the last one before it; nothing up to these is
    ever made again. `next_at` is when the planner looks at it, None when nothing is to come.
    """

    fired_at: datetime
    fired: str | None = None
    made: str | None = None
    made_at: datetime | None = None
    made_id: str | None = None
    next_at: datetime | None = None
    runs: int = 0
    merged: int = 0
    skipped: int = 0
    zone: str | None = None
    zone_hash: str | None = None
    zone_version: str | None = None
    """From which zone data the occurrence on the books was computed."""
    missed_at: datetime | None = None
    """The moment of a year that fell due before an edit moved it on: an edit back restores it."""


def zone_mark(rule: Rule) -> tuple[str | None, str | None, str | None]:
    """The zone of a rule, and the hash and version of its data here."""
    zone = rule.zone_name
    return (None, None, None) if zone is None else (zone, fingerprint(zone), zone_data_version())


class StoredSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule on the books."""

    id: int
    name: str
    version: int
    timing: ScheduleTiming
    contents: Contents
    progress: ScheduleProgress
    created_at: datetime
    updated_at: datetime
    paused_at: datetime | None = None
    pause_reason: str | None = None

    @property
    def payload(self) -> Any:
        """What it delivers, decoded; None when that is the occasion itself."""
        return None if self.contents.payload is None else msgspec.json.decode(self.contents.payload)

    @property
    def state(self) -> str:
        """active, paused, or finished when nothing is to come."""
        if self.paused_at is not None:
            return "paused"
        return "active" if self.progress.next_at is not None else "finished"


class Occasion(msgspec.Struct, frozen=True):
    """What a delivery knows of the schedule that made it."""

    schedule: str
    scheduled_for: datetime
    merged: int = 0
    overlap: Overlap = Overlap.ALLOW


_occasions = msgspec.json.Decoder(Occasion)


def encode_occasion(occasion: Occasion) -> str:
    """As it is stored, and sent where a schedule has no payload of its own."""
    return msgspec.json.encode(occasion).decode()


def decode_occasion(stored: str) -> Occasion:
    """The occasion that was stored."""
    return _occasions.decode(stored)


def no_schedule(name: str) -> NotFound:
    """The error for a name that no schedule has."""
    return NotFound("schedule", name, "duly schedules list shows what there is")


def due_at(name: str, jitter: float, occurrence: Occurrence) -> datetime:
    """When the occurrence goes out: at its moment, or spread after it by a hash of its name.

    The same occurrence is always spread alike, whoever computes it and however often.
    """
    if not jitter:
        return occurrence.at
    digest = hashlib.blake2b(f"{name}\0{occurrence.identity}".encode(), digest_size=8).digest()
    fraction = int.from_bytes(digest) / 2**64
    return occurrence.at + timedelta(seconds=jitter * fraction)
