"""Schedules: what a caller sets, and what is shown of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypedDict, cast

import msgspec
from msgspec import Meta

from duly.records.delivery import AT_LEAST_0, DEFAULT_PRIORITY, Priority
from duly.records.retry_plan import RetryPlan
from duly.records.target import GivenTarget, HandlerTarget, Webhook

DEFAULT_CAP = 1000
Moment = Annotated[datetime, Meta(tz=True)]
Seconds = Annotated[float, Meta(extra_json_schema=AT_LEAST_0)]
Count = Annotated[int, Meta(extra_json_schema={"minimum": 1})]
Span = float | timedelta | str


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


class ScheduleState(StrEnum):
    """The state of a schedule; finished if there is no next occurrence."""

    ACTIVE = "active"
    PAUSED = "paused"
    FINISHED = "finished"
    UNREADABLE = "unreadable"
    """A newer version wrote it, and this one cannot read it."""


class RuleSpec(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A rule: exactly one of cron, every, at, yearly and any_of, its details, and a calendar."""

    cron: (
        Annotated[str, Meta(description="as in 0 9 * * MON, every weekday at 9am or @daily")] | None
    ) = None
    every: Annotated[str, Meta(description="an interval, as in 15m or 1h30m")] | None = None
    at: Annotated[str, Meta(description="once: with an offset, or a wall time in tz")] | None = None
    yearly: Annotated[str, Meta(description="a day of every year, as in 12-24")] | None = None
    time: Annotated[str, Meta(description="the time of day of yearly, as in 09:00")] | None = None
    tz: Annotated[str, Meta(description="the time zone")] | None = None
    dst_gap: Annotated[str, Meta(description="run or skip a time that is skipped")] | None = None
    feb29: Annotated[str, Meta(description="feb28, mar1 or skip")] | None = None
    anchor: Annotated[str, Meta(description="a moment that every counts from")] | None = None
    any_of: Annotated[list[RuleSpec], Meta(description="rules of cron and every")] | None = None
    calendar: (
        Annotated[str, Meta(description="the calendar whose closed days it leaves out")] | None
    ) = None
    move: (
        Annotated[str, Meta(description="closed days: skip, or to the next or previous open one")]
        | None
    ) = None

    @property
    def zone(self) -> str | None:
        """Its time zone, which all rules of `any_of` share."""
        return self.tz or next((each.tz for each in self.any_of or [] if each.tz), None)


class ScheduleKeywords(TypedDict, total=False):
    """`ScheduleOptions` as keyword arguments, which also take durations and plain strings."""

    catch_up: CatchUp | str
    window: Span | None
    cap: int
    overlap: Overlap | str
    start: datetime | None
    end: datetime | None
    max_runs: int | None
    jitter: Span
    expires_after: Span | None
    retry: RetryPlan | None
    priority: int
    stream: str | None
    tags: Iterable[str]


class ScheduleOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The optional settings of a schedule; durations are in seconds."""

    catch_up: CatchUp = CatchUp.LATEST
    window: Seconds | None = None
    cap: Count = DEFAULT_CAP
    overlap: Overlap = Overlap.ALLOW
    start: Moment | None = None
    end: Moment | None = None
    max_runs: Count | None = None
    jitter: Seconds = 0.0
    expires_after: Seconds | None = None
    retry: RetryPlan | None = None
    priority: Priority = DEFAULT_PRIORITY
    stream: str | None = None
    tags: tuple[str, ...] = ()

    def keywords(self) -> ScheduleKeywords:
        """The options as keyword arguments of `App.schedule`."""
        names = ScheduleOptions.__struct_fields__
        return cast(ScheduleKeywords, {name: getattr(self, name) for name in names})


def no_payload() -> msgspec.Raw:
    """No payload: each delivery has the schedule's name and the moment as its payload."""
    return msgspec.Raw(b"")


class ScheduleSpec(ScheduleOptions, frozen=True, kw_only=True):
    """The wanted state of a schedule; what is left out has its default."""

    EXAMPLE: ClassVar = {
        "rule": {"cron": "0 9 * * MON", "tz": "Europe/Oslo"},
        "target": {"url": "https://example.org/hook"},
        "payload": {"team": 7},
    }
    rule: RuleSpec
    target: GivenTarget
    payload: Annotated[
        msgspec.Raw, Meta(description="any JSON; without it, schedule and moment")
    ] = msgspec.field(default_factory=no_payload)


class ScheduleWebhook(Webhook, frozen=True, omit_defaults=False):
    """The webhook of a schedule; headers that look like credentials are hidden."""


class Schedule(ScheduleOptions, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A schedule with its options and its progress."""

    id: int
    name: str
    state: str
    """active, paused, or finished if there is no next occurrence."""
    version: int
    rule: RuleSpec
    description: str
    """The rule in words."""
    target: str
    url: str | None = None
    webhook: ScheduleWebhook | None = None
    payload_json: msgspec.Raw = msgspec.field(name="payload", default=msgspec.Raw(b"null"))
    """The payload as the caller gave it, byte for byte; null if there is none."""
    next_at: datetime | None = None
    next_id: str | None = None
    """The delivery of the next occurrence."""
    last_fired_at: datetime | None = None
    runs: int = 0
    merged: int = 0
    skipped: int = 0
    paused_at: datetime | None = None
    pause_reason: str | None = None
    declared_in: str | None = None
    """The module and function whose decorator declares it, or declared it."""
    created_at: datetime
    updated_at: datetime

    @property
    def payload(self) -> Any:
        """The payload, decoded; None if there is none."""
        return msgspec.json.decode(self.payload_json)


class DeclaredSchedule(Schedule, frozen=True, kw_only=True):
    """A schedule that was declared, and what the declaration changed."""

    change: str
    """created, changed or unchanged."""
    moved: tuple[str, ...] = ()
    """Deliveries that were not claimed yet and moved with the change."""


class ScheduleFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the schedules that match all given fields; all of them if it is empty."""

    text: Annotated[str, Meta(description="part of the name, in upper or lower case")] | None = None
    tag: Annotated[str, Meta(description="a tag of its deliveries")] | None = None
    state: Annotated[ScheduleState, Meta(description="its state")] | None = None
    target: (
        Annotated[str, Meta(description="a handler, endpoint:NAME, or https://example.org")] | None
    ) = None


EVERY_SCHEDULE = ScheduleFilter()


class ScheduleFilterKeywords(TypedDict, total=False):
    """`ScheduleFilter` as keyword arguments."""

    text: str | None
    tag: str | None
    state: ScheduleState | str | None
    target: str | HandlerTarget | None


class ScheduleSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as a list shows it; `problem` says why it is unreadable."""

    name: str
    state: str
    description: str | None = None
    target: str | None = None
    next_at: datetime | None = None
    last_fired_at: datetime | None = None
    runs: int | None = None
    merged: int | None = None
    skipped: int | None = None
    problem: str | None = None


class OrphanedSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that code declared and no longer declares; it still delivers."""

    name: str
    declared_in: str
    """The module and function that declared it."""
    program: str
    left_at: datetime
    """When the program started without declaring it any more."""
    target: str
    next_at: datetime | None = None


class RemovedOrphans(msgspec.Struct, frozen=True):
    """The schedules that were removed, by name."""

    removed: list[str]


class LeftOut(msgspec.Struct, frozen=True):
    """The first moment of a day that a calendar closes, and why; `more` others are on that day."""

    at: datetime
    local: datetime
    reason: str
    more: int = 0


class UpcomingRun(msgspec.Struct, frozen=True):
    """One moment of a rule, also as local time; `shifted` if the clock skips the named time.

    A calendar may have moved it from a closed day (`moved_from`, local, and the `reason`), and
    left out moments before it.
    """

    at: datetime
    local: datetime
    shifted: bool = False
    moved_from: datetime | None = None
    reason: str | None = None
    left_out: tuple[LeftOut, ...] = ()


class RuleExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule means, what clock changes do to it, and when it is next."""

    rule: str
    cron: Annotated[str | None, Meta(description="how it would be stored, if as cron")]
    kind: str
    clock_changes: str
    next: list[UpcomingRun]


class Triggered(msgspec.Struct, frozen=True):
    """The delivery that was made."""

    id: str


class Backfilled(msgspec.Struct, frozen=True):
    """How many moments the range has, and how many deliveries are new."""

    moments: int
    made: int
    finished: Annotated[bool, Meta(description="false if the caller disconnected meanwhile")] = True
