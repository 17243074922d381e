"""Alerts: decided from the status and from events, raised once and cleared once.

A condition (late deliveries, an open circuit) is an alert while it lasts. It is cleared at a lower
limit than it is raised, so that a value near the limit does not raise it again and again. An event
(the clock jumped) is an alert until it has not occurred for QUIET.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from duly.records.alert import Alert, AlertKind
from duly.records.status import NamespaceStatus

SILENCE = timedelta(minutes=5)
QUIET = timedelta(minutes=15)
LATELY = timedelta(minutes=15)
"""The period over which dead letters are counted."""
KEY = "duly.alert."
"""Prefix of the keys of deliveries that notify of an alert; its id and the change follow."""


HAPPENINGS = frozenset(
    {
        AlertKind.CLOCK_JUMPED,
        AlertKind.STORE_ERRORS,
        AlertKind.SWEPT_UP,
        AlertKind.STREAM_RELEASED,
    }
)
MOST_STREAMS = 20
"""How many streams have an alert of their own at a time; one alert reports all others."""


class AlertCause(msgspec.Struct, frozen=True):
    """A reason for an alert that exists now."""

    kind: AlertKind
    subject: str
    detail: str


class AlertLimits(msgspec.Struct, frozen=True):
    """The numbers of late deliveries, and of dead letters in 15 minutes, that raise an alert."""

    late: int = 100
    dead: int = 10

    def lowered(self) -> AlertLimits:
        """The limits below which alerts are cleared."""
        return AlertLimits(max(self.late // 2, 1), max(self.dead // 2, 1))


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """The input for the decision about alerts."""

    status: NamespaceStatus
    dead_lately: int = 0
    happened: Mapping[AlertKind, str] = {}
    """Events that this process saw since the last check, with details."""


class Changes(msgspec.Struct, frozen=True):
    """What to write: new alerts, alerts still active, alerts to clear."""

    raised: list[AlertCause]
    seen: list[AlertCause]
    cleared: list[Alert]


def changes(watched: Watched, limits: AlertLimits, known: Sequence[Alert]) -> Changes:
    """Compare the present causes with the active alerts."""
    present = {(each.kind, each.subject) for each in known}
    found = list(troubles(watched, limits))
    remaining = {(each.kind, each.subject) for each in troubles(watched, limits.lowered())}
    return Changes(
        [each for each in found if (each.kind, each.subject) not in present],
        [each for each in found if (each.kind, each.subject) in present],
        [each for each in known if _is_over(each, remaining, watched.status.at)],
    )


def _is_over(alert: Alert, remaining: set[tuple[AlertKind, str]], now: datetime) -> bool:
    if (alert.kind, alert.subject) in remaining:
        return False
    return alert.kind not in HAPPENINGS or now - alert.seen_at > QUIET


def troubles(watched: Watched, limits: AlertLimits) -> Iterator[AlertCause]:
    """All present causes of alerts."""
    now = watched.status
    if now.late >= limits.late:
        detail = f"{_count(now.late, now)} deliveries are late, the oldest due {now.oldest_late_at}"
        yield AlertCause(AlertKind.LATE_DELIVERIES, "", detail)
    if now.planner_lag >= SILENCE.total_seconds():
        minutes = now.planner_lag / 60
        detail = f"nobody has planned for {minutes:.0f} minutes; see `duly workers list`"
        yield AlertCause(AlertKind.PLANNER_SILENT, "", detail)
    if _has_no_live_worker(now):
        detail = f"no worker was heard since {now.last_beat_at}, and {_count(now.due, now)} are due"
        yield AlertCause(AlertKind.WORKERS_SILENT, "", detail)
    if watched.dead_lately >= limits.dead:
        detail = f"{watched.dead_lately} deliveries died within 15 minutes; see `duly dead groups`"
        yield AlertCause(AlertKind.DEAD_LETTERS, "", detail)
    for target in (*now.circuits_open, *now.circuits_probing):
        yield AlertCause(AlertKind.CIRCUIT_OPEN, target, "it fails, and its deliveries wait")
    for name in now.endpoints_disabled:
        yield AlertCause(
            AlertKind.ENDPOINT_DISABLED, name, "its deliveries wait until it is resumed"
        )
    for kind, detail in watched.happened.items():
        yield AlertCause(kind, "", detail)


def stream_released(stream: str, head: str, block_for: float, known: Collection[str]) -> AlertCause:
    """The alert of a stream that continues without its failed head.

    `known` are the subjects of the active alerts of this kind.
    """
    detail = f"its head {head} failed for {block_for:g} s, and those behind it go on without it"
    if stream in known or len(known) < MOST_STREAMS:
        return AlertCause(AlertKind.STREAM_RELEASED, stream, detail)
    detail = f"more streams go on without their heads, the last one {stream}; see `duly audit`"
    return AlertCause(AlertKind.STREAM_RELEASED, "", detail)


def _count(count: int, now: NamespaceStatus) -> str:
    return f"{count} or more" if count >= now.counted_up_to else str(count)


def _has_no_live_worker(now: NamespaceStatus) -> bool:
    """Whether work has been due, and no worker has sent a heartbeat, for SILENCE."""
    silent = now.last_beat_at is None or now.at - now.last_beat_at >= SILENCE
    return now.workers == 0 and silent and now.oldest_due_seconds >= SILENCE.total_seconds()
