"""Moments that a rule names, in UTC and as the clocks of its zone show them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from duly.domain.schedules.planning import INSTANT
from duly.domain.time.rules import Rule
from duly.domain.time.zones import zone

UTC_NAME = "UTC"


class Moment(msgspec.Struct, frozen=True):
    """One moment; `shifted` says that the clock skips the time that was named."""

    at: datetime
    local: datetime
    shifted: bool = False


def moments(rule: Rule, found: Sequence[datetime], tz: str | None = None) -> list[Moment]:
    """The moments of a rule as people see them, in its own zone or in `tz`."""
    clock = zone(rule.zone_name or tz or UTC_NAME)
    return [Moment(each, each.astimezone(clock), _is_shifted(rule, each)) for each in found]


def _is_shifted(rule: Rule, at: datetime) -> bool:
    found = next(rule.occurrences(at - INSTANT), None)
    return found is not None and found.at == at and found.shifted
