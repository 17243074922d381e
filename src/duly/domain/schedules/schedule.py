"""A schedule: its timing, its contents and its progress."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

import msgspec

from duly.domain.schedules.origin import Origin
from duly.domain.time.occurrences import Occurrence
from duly.domain.time.rules import At, Rule, Yearly
from duly.domain.time.zones import fingerprint, zone_data_version
from duly.errors import NotFound
from duly.records.delivery import DEFAULT_PRIORITY
from duly.records.schedule import DEFAULT_CAP, CatchUp, Overlap

DELIVERY_ID = "{{delivery.id}}"
"""A placeholder in a schedule's payload, replaced by the id of each delivery."""
LARGEST_CAP = 100_000
BACKFILL_SLICE = 500


class ScheduleTiming(msgspec.Struct, frozen=True, kw_only=True):
    """When a schedule is due, and how it catches up on missed occurrences."""

    rule: Rule
    catch_up: CatchUp = CatchUp.LATEST
    window: float | None = None
    """In seconds; older missed occurrences are skipped."""
    cap: int = DEFAULT_CAP
    overlap: Overlap = Overlap.ALLOW
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_runs: int | None = None
    jitter: float = 0.0

    @property
    def is_plain(self) -> bool:
        """Whether the rule alone decides: no limits, no jitter, nothing skipped."""
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
        """Whether every occurrence is delivered, however late; window and cap do not apply."""
        return isinstance(self.rule, At | Yearly)

    @property
    def makes_up_all(self) -> bool:
        """Whether missed occurrences are delivered one by one."""
        return self.catch_up is CatchUp.ALL or self.is_never_missed


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule delivers, and where; without a payload, the occasion."""

    target: str
    address: str | None = None
    payload: bytes | None = None
    priority: int = DEFAULT_PRIORITY
    stream: str | None = None
    expires_after: float | None = None
    retry: str | None = None
    tags: tuple[str, ...] = ()


class ScheduleProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a schedule.

    `made` is the stored next occurrence, `fired` the last one before it; neither these nor earlier
    ones are made again. The planner is due at `next_at`; None if there is no next occurrence.
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
    """The version of the zone data from which `made_at` was computed."""
    missed_at: datetime | None = None
    """The due moment of a year that an edit passed over; reversing the edit restores it."""


def zone_mark(rule: Rule) -> tuple[str | None, str | None, str | None]:
    """The zone of a rule, and the hash and version of this process's zone data."""
    zone = rule.zone_name
    return (None, None, None) if zone is None else (zone, fingerprint(zone), zone_data_version())


class StoredSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is stored."""

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
    origin: Origin | None = None
    """Where code declares it; None if it was made otherwise."""

    @property
    def runs(self) -> int:
        """How many occurrences were due; the stored next one does not count yet."""
        return self.progress.runs - (self.progress.made is not None)

    @property
    def state(self) -> str:
        """active, paused, or finished if there is no next occurrence."""
        if self.paused_at is not None:
            return "paused"
        return "active" if self.progress.next_at is not None else "finished"


class Occasion(msgspec.Struct, frozen=True):
    """The schedule and the moment for which a delivery was made."""

    schedule: str
    scheduled_for: datetime
    merged: int = 0
    overlap: Overlap = Overlap.ALLOW


_occasions = msgspec.json.Decoder(Occasion)


def encode_occasion(occasion: Occasion) -> str:
    """The occasion as JSON, for the store and as the payload of schedules without one."""
    return msgspec.json.encode(occasion).decode()


def decode_occasion(stored: str) -> Occasion:
    """The occasion from stored JSON."""
    return _occasions.decode(stored)


def no_schedule(name: str) -> NotFound:
    """The error for a name that no schedule has."""
    return NotFound("schedule", name, "duly schedules list shows what there is")


def due_at(name: str, jitter: float, occurrence: Occurrence) -> datetime:
    """When the occurrence is due: at its moment, plus the jitter.

    The jitter comes from a hash of schedule and occurrence, so every process computes the same.
    """
    if not jitter:
        return occurrence.at
    digest = hashlib.blake2b(f"{name}\0{occurrence.identity}".encode(), digest_size=8).digest()
    fraction = int.from_bytes(digest) / 2**64
    return occurrence.at + timedelta(seconds=jitter * fraction)
