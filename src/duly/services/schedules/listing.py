"""Lists of schedules, by name and by a filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from duly.domain import checks
from duly.domain.endpoints.endpoint import wanted_target
from duly.domain.schedules.record import summary_of
from duly.domain.schedules.schedule import StoredSchedule
from duly.errors import InvalidInput, quoted
from duly.ports import Schedules, UnreadableSchedule
from duly.records.schedule import (
    ScheduleFilter,
    ScheduleFilterKeywords,
    ScheduleState,
    ScheduleSummary,
)

BATCH = 500
"""How many are read at once to find unreadable ones, which no condition in SQL can select."""


async def listed(
    schedules: Schedules, filter: ScheduleFilter, after: str, limit: int
) -> list[ScheduleSummary]:
    """The first `limit` schedules that match, after a name."""
    found: list[ScheduleSummary] = []
    least = BATCH if filter.state is ScheduleState.UNREADABLE else 1
    while True:
        most = max(limit - len(found), least)
        page = [_summary(each) for each in await schedules.page(after, most, filter)]
        found += [each for each in page if filter.state in (None, each.state)]
        if len(page) < most or len(found) >= limit:
            return found[:limit]
        after = page[-1].name


def checked_filter(wanted: ScheduleFilterKeywords) -> ScheduleFilter:
    """The filter with each of its fields checked."""
    unknown = wanted.keys() - CHECKS.keys()
    if unknown:
        raise TypeError(f"schedules have no filter {sorted(unknown)[0]!r}")
    given = {name: CHECKS[name](value) for name, value in wanted.items() if value is not None}
    return ScheduleFilter(**given)


def _state(value: str) -> ScheduleState:
    try:
        return ScheduleState(value)
    except ValueError:
        known = ", ".join(ScheduleState)
        raise InvalidInput("state", f"{quoted(value)} is none of {known}") from None


CHECKS: dict[str, Callable[[Any], Any]] = {
    "text": lambda value: checks.checked_text("text", value),
    "tag": lambda value: checks.checked_text("tag", value),
    "state": _state,
    "target": wanted_target,
}


def _summary(found: StoredSchedule | UnreadableSchedule) -> ScheduleSummary:
    if isinstance(found, UnreadableSchedule):
        state = ScheduleState.UNREADABLE
        return ScheduleSummary(name=found.name, state=state, problem=found.problem)
    return summary_of(found)
