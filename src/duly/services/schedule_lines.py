"""A schedule in one line, and how far it has come."""

from __future__ import annotations

from datetime import datetime

from duly.domain.schedules.schedule import StoredSchedule
from duly.domain.time.rules import At, Yearly
from duly.ports import UnreadableSchedule
from duly.records.schedule import ScheduleSummary

UNREADABLE = "unreadable"


def line(schedule: StoredSchedule | UnreadableSchedule | ScheduleSummary) -> ScheduleSummary:
    """The schedule in one line; one that is already stays as it is."""
    if isinstance(schedule, ScheduleSummary):
        return schedule
    if isinstance(schedule, UnreadableSchedule):
        return ScheduleSummary(name=schedule.name, state=UNREADABLE, problem=schedule.problem)
    progress = schedule.progress
    return ScheduleSummary(
        name=schedule.name,
        state=schedule.state,
        rule=schedule.timing.rule.describe(),
        target=schedule.contents.target,
        next_at=progress.made_at,
        last_fired_at=last_fired_at(schedule),
        runs=runs_so_far(schedule),
        merged=progress.merged,
        skipped=progress.skipped,
    )


def runs_so_far(schedule: StoredSchedule) -> int:
    """How many occurrences have come; the one on the books is counted when it is made."""
    return schedule.progress.runs - (schedule.progress.made is not None)


def last_fired_at(schedule: StoredSchedule) -> datetime | None:
    """The moment of the last occurrence before the one on the books.

    Progress has its identity only, which is a moment, a wall time or a year.
    """
    fired, rule = schedule.progress.fired, schedule.timing.rule
    if fired is None:
        return None
    if isinstance(rule, Yearly) and fired.isdecimal():
        found = rule.of_year(int(fired))
        return None if found is None else found.at
    if isinstance(rule, At) and fired == rule.occurrence().identity:
        return rule.occurrence().at
    # What an earlier rule of another kind fired says nothing here without its rule.
    return datetime.fromisoformat(fired) if fired.endswith("Z") else None
