"""Schedules as the API takes and shows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from duly.domain.deliveries import retry
from duly.domain.endpoints.endpoint import endpoint, endpoint_name
from duly.domain.endpoints.webhooks import decode_webhook
from duly.domain.schedules.rule_spec import rule_of, spelled
from duly.domain.schedules.schedule import Contents, ScheduleProgress, StoredSchedule
from duly.domain.schedules.upcoming import Moment as WallMoment
from duly.domain.time.rules import Rule
from duly.records.delivery import DEFAULT_PRIORITY
from duly.records.retry_plan import RetryPlan
from duly.records.schedule import DEFAULT_CAP, CatchUp, Overlap, ScheduleSummary
from duly.records.target import GivenTarget, shown_headers
from duly.safe_text import shown_url
from duly.services.schedule_lines import last_fired_at, runs_so_far
from duly.services.schedules import Target as AnyTarget
from duly.surfaces.http.protocol.bodies import Moment

Seconds = Annotated[float, Meta(ge=0)]
Preview = Annotated[int, Meta(ge=1, le=1000, description="how many moments")]


class RuleWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """When: exactly one of cron, every, at and yearly, and what goes with it."""

    cron: Annotated[str, Meta(description="as in 0 9 * * MON, @daily or @every 90s")] | None = None
    every: Annotated[str, Meta(description="an interval, as in 15m or 1h30m")] | None = None
    at: Annotated[str, Meta(description="once: with an offset, or a wall time in tz")] | None = None
    yearly: Annotated[str, Meta(description="a day of every year, as in 12-24")] | None = None
    time: Annotated[str, Meta(description="the time of day of yearly, as in 09:00")] | None = None
    tz: Annotated[str, Meta(description="the zone whose clocks are meant")] | None = None
    dst_gap: Annotated[str, Meta(description="run or skip a time that is skipped")] | None = None
    feb29: Annotated[str, Meta(description="feb28, mar1 or skip")] | None = None
    anchor: Annotated[str, Meta(description="a moment that every counts from")] | None = None

    def rule(self) -> Rule:
        """The rule that is meant."""
        return rule_of(msgspec.structs.asdict(self))


def no_payload() -> msgspec.Raw:
    """None at all: the occasion itself is delivered."""
    return msgspec.Raw(b"")


class ScheduleSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a schedule is to be; what is left out has its default."""

    EXAMPLE: ClassVar = {
        "rule": {"cron": "0 9 * * MON", "tz": "Europe/Oslo"},
        "target": {"url": "https://example.org/hook"},
        "payload": {"team": 7},
    }
    rule: RuleWords
    target: GivenTarget
    payload: Annotated[
        msgspec.Raw, Meta(description="any JSON; without it, schedule and moment")
    ] = msgspec.field(default_factory=no_payload)
    catch_up: CatchUp = CatchUp.LATEST
    window: Seconds | None = None
    cap: Annotated[int, Meta(ge=1)] = DEFAULT_CAP
    overlap: Overlap = Overlap.ALLOW
    start: Moment | None = None
    end: Moment | None = None
    max_runs: Annotated[int, Meta(ge=1)] | None = None
    jitter: Seconds = 0.0
    expires_after: Seconds | None = None
    retry: RetryPlan | None = None
    priority: Annotated[int, Meta(ge=1, le=9)] = DEFAULT_PRIORITY
    stream: str | None = None
    tags: list[str] = []

    def options(self) -> dict[str, Any]:
        """All but rule, target and payload, as `app.schedule` takes it."""
        given = msgspec.structs.asdict(self)
        return {name: given[name] for name in given if name not in ("rule", "target", "payload")}


class ScheduleChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is to change of a schedule; what is left out stays as it is."""

    EXAMPLE: ClassVar = {"rule": {"every": "15m"}, "priority": 9}
    rule: RuleWords | UnsetType = UNSET
    target: GivenTarget | UnsetType = UNSET
    payload: msgspec.Raw = msgspec.field(default_factory=no_payload)
    catch_up: CatchUp | UnsetType = UNSET
    window: Seconds | UnsetType | None = UNSET
    cap: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    start: Moment | UnsetType | None = UNSET
    end: Moment | UnsetType | None = UNSET
    max_runs: Annotated[int, Meta(ge=1)] | UnsetType | None = UNSET
    jitter: Seconds | UnsetType = UNSET
    expires_after: Seconds | UnsetType | None = UNSET
    retry: RetryPlan | UnsetType | None = UNSET
    priority: Annotated[int, Meta(ge=1, le=9)] | UnsetType = UNSET
    stream: str | UnsetType | None = UNSET
    tags: list[str] | UnsetType = UNSET

    def options(self) -> dict[str, Any]:
        """What is given besides rule, target and payload."""
        given = msgspec.structs.asdict(self)
        rest = {name: given[name] for name in given if name not in ("rule", "target", "payload")}
        return {name: value for name, value in rest.items() if value is not UNSET}


class PreviewQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far to look ahead."""

    n: Preview = 5


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to go on."""

    EXAMPLE: ClassVar = {"from_pause": True}
    from_pause: Annotated[bool, Meta(description="with what was missed, by its catch-up rule")] = (
        False
    )


class Backfill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which occurrences of the past to make, unless they were made."""

    EXAMPLE: ClassVar = {
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-11-08T00:00:00Z",
        "dry_run": True,
    }
    start: Moment
    end: Moment
    dry_run: Annotated[bool, Meta(description="only count the moments")] = False


class Backfilled(msgspec.Struct, frozen=True):
    """How many moments were looked at, and how many deliveries are new."""

    moments: int
    made: int
    finished: Annotated[bool, Meta(description="false when the caller hung up meanwhile")] = True


async def filled(moments: int, slices: AsyncIterator[int]) -> Backfilled:
    """Make them; cancelled, it ends after the slice that has begun, and tells how far it came."""
    made, finished = 0, True
    try:
        async for more in slices:
            made += more
    except asyncio.CancelledError:
        finished = False
    return Backfilled(moments, made, finished)


class Triggered(msgspec.Struct, frozen=True):
    """The delivery that was made."""

    id: str


class Explain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule to explain."""

    EXAMPLE: ClassVar = {"rule": {"cron": "30 2 * * MON-FRI", "tz": "Europe/Oslo"}, "n": 3}
    rule: RuleWords
    n: Preview = 5


class Explained(msgspec.Struct, frozen=True):
    """What a rule means, and when it is next."""

    rule: str
    kind: str
    clock_changes: str
    next: list[WallMoment]


class WebhookRecord(msgspec.Struct, frozen=True):
    """Where a schedule's webhooks go; headers that look like credentials are hidden."""

    url: str
    method: str
    headers: dict[str, str]
    timeout: float


class ScheduleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule on the books."""

    id: int
    name: str
    state: str
    version: int
    rule: RuleWords
    description: str
    target: str
    url: str | None
    webhook: WebhookRecord | None
    payload: msgspec.Raw = msgspec.field(default_factory=no_payload)
    catch_up: CatchUp
    window: float | None
    cap: int
    overlap: Overlap
    start: datetime | None
    end: datetime | None
    max_runs: int | None
    jitter: float
    expires_after: float | None
    retry: RetryPlan | None
    priority: int
    stream: str | None
    tags: list[str]
    next_at: datetime | None
    next_id: str | None
    last_fired_at: datetime | None
    runs: int
    merged: int
    skipped: int
    progress: ScheduleProgress
    paused_at: datetime | None
    pause_reason: str | None
    created_at: datetime
    updated_at: datetime


class Upserted(ScheduleRecord, frozen=True, kw_only=True):
    """A schedule, and whether it was created, changed or unchanged."""

    change: str


ScheduleLine = ScheduleSummary


def options_of(schedule: StoredSchedule) -> dict[str, Any]:
    """The options as `app.schedule` takes them."""
    timing, contents = schedule.timing, schedule.contents
    return {
        "catch_up": timing.catch_up,
        "window": timing.window,
        "cap": timing.cap,
        "overlap": timing.overlap,
        "start": timing.starts_at,
        "end": timing.ends_at,
        "max_runs": timing.max_runs,
        "jitter": timing.jitter,
        "expires_after": contents.expires_after,
        "retry": None if contents.retry is None else retry.decode(contents.retry),
        "priority": contents.priority,
        "stream": contents.stream,
        "tags": list(contents.tags),
    }


def target_in(contents: Contents) -> AnyTarget:
    """The target as `app.schedule` takes it."""
    if contents.address is not None:
        return decode_webhook(contents.address)
    name = endpoint_name(contents.target)
    return contents.target if name is None else endpoint(name)


def schedule_record(schedule: StoredSchedule) -> dict[str, Any]:
    """All that is shown of a schedule."""
    progress, contents = schedule.progress, schedule.contents
    return {
        "id": schedule.id,
        "name": schedule.name,
        "state": schedule.state,
        "version": schedule.version,
        "rule": RuleWords(**spelled(schedule.timing.rule)),
        "description": schedule.timing.rule.describe(),
        "target": contents.target,
        "url": None if contents.address is None else _webhook(contents.address).url,
        "webhook": None if contents.address is None else _webhook(contents.address),
        "payload": msgspec.Raw(b"null" if contents.payload is None else contents.payload),
        **options_of(schedule),
        "next_at": progress.made_at,
        "next_id": progress.made_id,
        "last_fired_at": last_fired_at(schedule),
        "runs": runs_so_far(schedule),
        "merged": progress.merged,
        "skipped": progress.skipped,
        "progress": progress,
        "paused_at": schedule.paused_at,
        "pause_reason": schedule.pause_reason,
        "created_at": schedule.created_at,
        "updated_at": schedule.updated_at,
    }


def _webhook(stored: str) -> WebhookRecord:
    found = decode_webhook(stored)
    headers = shown_headers(found.headers)
    return WebhookRecord(shown_url(found.url), found.method, headers, found.timeout)
