"""Moments of a rule, in UTC and in its time zone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duly.domain.schedules.planning import INSTANT
from duly.domain.time.rules import Rule
from duly.domain.time.zones import zone
from duly.records.schedule import UpcomingRun

UTC_NAME = "UTC"


def upcoming_runs(
    rule: Rule, found: Sequence[datetime], tz: str | None = None
) -> list[UpcomingRun]:
    """The moments of a rule in its own zone; `tz` is used if it has none."""
    clock = zone(rule.zone_name or tz or UTC_NAME)
    return [UpcomingRun(each, each.astimezone(clock), _is_shifted(rule, each)) for each in found]


def _is_shifted(rule: Rule, at: datetime) -> bool:
    found = next(rule.occurrences(at - INSTANT), None)
    return found is not None and found.at == at and found.shifted
