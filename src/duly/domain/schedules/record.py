"""Makes the records of a stored schedule."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from duly.domain.endpoints.webhooks import decode_webhook
from duly.domain.schedules.options import options_of
from duly.domain.schedules.rule_spec import spec_of
from duly.domain.schedules.schedule import StoredSchedule
from duly.domain.time.rules import At, Yearly
from duly.records.schedule import Schedule, ScheduleSummary, ScheduleWebhook
from duly.records.target import shown_headers
from duly.safe_text import shown_url

Record = TypeVar("Record", bound=Schedule)


def record_of(schedule: StoredSchedule, kind: type[Record], **more: Any) -> Record:
    """The schedule as a record of this kind; `more` are its own fields."""
    contents = schedule.contents
    webhook = None if contents.address is None else _webhook(contents.address)
    return kind(
        **_common(schedule),
        **msgspec.structs.asdict(options_of(schedule)),
        id=schedule.id,
        version=schedule.version,
        rule=spec_of(schedule.timing.rule),
        url=None if webhook is None else webhook.url,
        webhook=webhook,
        payload_json=msgspec.Raw(contents.payload or b"null"),
        next_id=schedule.progress.made_id,
        paused_at=schedule.paused_at,
        pause_reason=schedule.pause_reason,
        declared_in=None if schedule.origin is None else schedule.origin.place,
        created_at=schedule.created_at,
        updated_at=schedule.updated_at,
        **more,
    )


def summary_of(schedule: StoredSchedule) -> ScheduleSummary:
    """The schedule as lists show it."""
    return ScheduleSummary(**_common(schedule))


def _common(schedule: StoredSchedule) -> dict[str, Any]:
    """The fields of the record that the summary has too."""
    progress = schedule.progress
    return {
        "name": schedule.name,
        "state": schedule.state,
        "description": schedule.timing.rule.describe(),
        "target": schedule.contents.target,
        "next_at": progress.made_at,
        "last_fired_at": _last_fired_at(schedule),
        "runs": schedule.runs,
        "merged": progress.merged,
        "skipped": progress.skipped,
    }


def _webhook(stored: str) -> ScheduleWebhook:
    found = decode_webhook(stored)
    headers = shown_headers(found.headers)
    return ScheduleWebhook(shown_url(found.url), found.method, headers, found.timeout)


def _last_fired_at(schedule: StoredSchedule) -> datetime | None:
    """The moment of the last occurrence before the next one.

    Only its identity is stored: a moment, a wall time or a year.
    """
    fired, rule = schedule.progress.fired, schedule.timing.rule
    if fired is None:
        return None
    if isinstance(rule, Yearly) and fired.isdecimal():
        found = rule.of_year(int(fired))
        return None if found is None else found.at
    if isinstance(rule, At) and fired == rule.occurrence().identity:
        return rule.occurrence().at
    # A wall time or year of an earlier rule is no moment without that rule.
    return datetime.fromisoformat(fired) if fired.endswith("Z") else None
