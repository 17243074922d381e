"""Decides what changes when a schedule is declared, paused, resumed or removed.

The stored next occurrence follows the change until it is claimed. A claimed occurrence is
delivered as it was, and the change applies from the next one on.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import dropwhile

import msgspec

from duly.domain.checks import EARLIEST
from duly.domain.schedules.calendars import check_moments, has_come, only_days_differ
from duly.domain.schedules.planning import INSTANT, Drop, NewId, Plan, Planned, Planning, following
from duly.domain.schedules.schedule import (
    Contents,
    Occasion,
    ScheduleProgress,
    ScheduleTiming,
    StoredSchedule,
    due_at,
    encode_occasion,
    zone_mark,
)
from duly.domain.schedules.years import Edit
from duly.domain.time.business_days import BusinessDays
from duly.domain.time.occurrences import Occurrence
from duly.domain.time.rules import At, Yearly, with_days
from duly.errors import InvalidInput


class Unclaimed(msgspec.Struct, frozen=True):
    """The deliveries of a schedule that are not claimed."""

    next: bool = False
    """Whether the next occurrence is one of them."""
    late: str | None = None
    """The id of the delivery before it; yearly schedules only."""


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """The new version of a schedule, and the plan for its deliveries."""

    plan: Plan
    timing: ScheduleTiming
    contents: Contents
    action: str
    paused_at: datetime | None = None
    pause_reason: str | None = None


def create(
    name: str, timing: ScheduleTiming, contents: Contents, now: datetime, new_id: NewId
) -> Revision:
    """A new schedule starts now; past occurrences are not made, except that of an `at`."""
    fired_at = now
    if isinstance(timing.rule, At):
        fired_at = EARLIEST - INSTANT
    planning = Planning(name, timing, ScheduleProgress(fired_at=fired_at), now, new_id)
    return Revision(
        plan=planning.plan(untouched=False), timing=timing, contents=contents, action="created"
    )


def change(
    schedule: StoredSchedule,
    timing: ScheduleTiming,
    contents: Contents,
    now: datetime,
    new_id: NewId,
    *,
    untouched: bool,
    late: str | None = None,
    action: str = "changed",
) -> Revision:
    """Change a schedule; `late` is the delivery before the next one, if it is not claimed."""
    schedule = _decided_until_now(schedule, now)
    if schedule.paused_at is not None:
        plan = Plan(progress=schedule.progress)
    elif isinstance(timing.rule, Yearly) and isinstance(schedule.timing.rule, Yearly):
        plan = Edit(schedule, timing, now, untouched=untouched, late=late).plan(new_id)
    elif untouched:
        plan = _moved(schedule, timing, now)
    else:
        plan = _replanned(schedule, timing, now, new_id)
    return Revision(
        plan=plan,
        timing=timing,
        contents=contents,
        action=action,
        paused_at=schedule.paused_at,
        pause_reason=schedule.pause_reason,
    )


def recompute(
    schedule: StoredSchedule, days: BusinessDays, now: datetime, new_id: NewId
) -> Callable[[Unclaimed], Revision] | None:
    """How a schedule changes with the days of its calendar; None if its next occurrence stays.

    One that is due already stays as it is, and the planner goes on from there. InvalidInput if the
    days leave nothing of the rule.
    """
    rule, old = with_days(schedule.timing.rule, days), schedule.progress
    timing = msgspec.structs.replace(schedule.timing, rule=rule)
    try:
        check_moments(rule, now)
    except InvalidInput as error:
        raise InvalidInput("closed", f"schedule {schedule.name!r}: {error.problem}") from error
    if schedule.paused_at is not None or old.made_at is None or old.made_at <= now:
        return None
    found = _replacement(schedule, timing, now)
    if found is not None and (found.identity, found.at) == (old.made, old.made_at):
        return None
    return lambda unclaimed: change(
        schedule,
        timing,
        schedule.contents,
        now,
        new_id,
        untouched=unclaimed.next,
        late=unclaimed.late,
    )


def _decided_until_now(schedule: StoredSchedule, now: datetime) -> StoredSchedule:
    """The schedule as decided until now if it has not started: nothing was due so far."""
    old, starts_at = schedule.progress, schedule.timing.starts_at
    if starts_at is None or starts_at <= now:
        return schedule
    mark = now if old.fired_at == starts_at - INSTANT else max(old.fired_at, now)
    progress = msgspec.structs.replace(old, fired_at=mark)
    return msgspec.structs.replace(schedule, progress=progress)


def _moved(schedule: StoredSchedule, timing: ScheduleTiming, now: datetime) -> Plan:
    old = schedule.progress
    assert old.made_id is not None
    occurrence = _replacement(schedule, timing, now)
    too_many = timing.max_runs is not None and old.runs > timing.max_runs
    if occurrence is None or too_many or occurrence.at > (timing.ends_at or occurrence.at):
        return Plan(progress=_without_stored(old, now), drop=[(old.made_id, Drop.WITHDRAWN)])
    zone, zone_hash, zone_version = zone_mark(timing.rule)
    progress = msgspec.structs.replace(
        old,
        made=occurrence.identity,
        made_at=occurrence.at,
        next_at=occurrence.at,
        zone=zone,
        zone_hash=zone_hash,
        zone_version=zone_version,
    )
    occasion = Occasion(schedule.name, occurrence.at, 0, timing.overlap)
    due = due_at(schedule.name, timing.jitter, occurrence)
    moved = Planned(old.made_id, occurrence.identity, due, encode_occasion(occasion))
    return Plan(progress=progress, move=[moved])


def _replacement(
    schedule: StoredSchedule, timing: ScheduleTiming, now: datetime
) -> Occurrence | None:
    """The occurrence that replaces the stored one under the new timing."""
    old, rule = schedule.progress, timing.rule
    assert old.made is not None
    if isinstance(rule, Yearly) and isinstance(schedule.timing.rule, Yearly):
        # Reached only for new zone data; `years` decides edits of yearly schedules.
        found = rule.of_year(int(old.made))
    elif isinstance(rule, At):
        found = next(following(rule, old.fired, EARLIEST - INSTANT), None)
    else:
        after = old.fired_at if rule == schedule.timing.rule else max(now, old.fired_at)
        coming = following(rule, old.fired, after)
        if only_days_differ(rule, was := schedule.timing.rule):
            coming = dropwhile(lambda each: has_come(rule, was, each, now), coming)
        found = next(coming, None)
    if found is None or timing.starts_at is None or found.at >= timing.starts_at:
        return found
    return next(following(rule, old.fired, timing.starts_at - INSTANT), None)


def _replanned(
    schedule: StoredSchedule, timing: ScheduleTiming, now: datetime, new_id: NewId
) -> Plan:
    """Plan what follows: the stored occurrence is already claimed, or there is none."""
    old = schedule.progress
    fired, fired_at = old.fired, old.fired_at
    if old.made is not None and old.made_at is not None:
        fired, fired_at = old.made, max(old.made_at, fired_at)
    if isinstance(timing.rule, At):
        fired_at = EARLIEST - INSTANT
    elif timing.rule != schedule.timing.rule:
        fired_at = max(old.fired_at, now)
    progress = msgspec.structs.replace(
        _without_stored(old, now), fired=fired, fired_at=fired_at, runs=old.runs
    )
    return Planning(schedule.name, timing, progress, now, new_id).plan(untouched=False)


def _without_stored(old: ScheduleProgress, now: datetime) -> ScheduleProgress:
    """The progress without the stored occurrence; everything before that is decided."""
    return msgspec.structs.replace(
        old,
        fired_at=max(old.fired_at, now if old.made_at is None else min(now, old.made_at - INSTANT)),
        made=None,
        made_at=None,
        made_id=None,
        next_at=None,
        runs=max(0, old.runs - 1),
    )


def rezone(schedule: StoredSchedule, now: datetime, untouched: bool) -> Revision:
    """Recompute the stored occurrence from changed zone data."""
    zone, zone_hash, zone_version = zone_mark(schedule.timing.rule)
    progress = msgspec.structs.replace(
        schedule.progress, zone=zone, zone_hash=zone_hash, zone_version=zone_version
    )
    plan = Plan(progress=progress)
    if untouched and schedule.paused_at is None:
        plan = _moved(schedule, schedule.timing, now)
    return _unchanged(
        schedule,
        plan,
        "rezoned",
        paused_at=schedule.paused_at,
        pause_reason=schedule.pause_reason,
    )


def replan(schedule: StoredSchedule, now: datetime, new_id: NewId) -> Revision:
    """Make the next occurrence again, whose delivery is missing."""
    progress = _without_stored(schedule.progress, now)
    planning = Planning(schedule.name, schedule.timing, progress, now, new_id)
    return _unchanged(schedule, planning.plan(untouched=False), "mended")


def pause(
    schedule: StoredSchedule, reason: str | None, now: datetime, *, untouched: bool
) -> Revision | None:
    """Pause a schedule; a claimed delivery continues. None if it is already paused."""
    if schedule.paused_at is not None:
        return None
    old = schedule.progress
    if untouched:
        assert old.made_id is not None
        plan = Plan(progress=_without_stored(old, now), drop=[(old.made_id, Drop.WITHDRAWN)])
    elif old.made is not None and old.made_at is not None:
        claimed = msgspec.structs.replace(
            _without_stored(old, now),
            fired=old.made,
            fired_at=max(old.made_at, old.fired_at),
            runs=old.runs,
        )
        plan = Plan(progress=claimed)
    else:
        plan = Plan(progress=old)
    return _unchanged(schedule, plan, "paused", paused_at=now, pause_reason=reason)


def resume(
    schedule: StoredSchedule, now: datetime, new_id: NewId, *, from_pause: bool
) -> Revision | None:
    """Resume a schedule from now, or with `from_pause` catch up on what the pause missed.

    None if it is not paused.
    """
    if schedule.paused_at is None:
        return None
    progress = schedule.progress
    if not from_pause and not isinstance(schedule.timing.rule, At):
        progress = msgspec.structs.replace(progress, fired_at=max(now, progress.fired_at))
    planning = Planning(schedule.name, schedule.timing, progress, now, new_id)
    return _unchanged(schedule, planning.plan(untouched=False), "resumed")


def remove(schedule: StoredSchedule, *, untouched: bool) -> Revision:
    """Remove a schedule: a pending delivery is cancelled, a claimed one continues."""
    progress = schedule.progress
    drop = (
        [(progress.made_id, Drop.CANCELLED)] if untouched and progress.made_id is not None else []
    )
    return _unchanged(schedule, Plan(progress=progress, drop=drop), "removed")


def _unchanged(
    schedule: StoredSchedule,
    plan: Plan,
    action: str,
    paused_at: datetime | None = None,
    pause_reason: str | None = None,
) -> Revision:
    return Revision(
        plan=plan,
        timing=schedule.timing,
        contents=schedule.contents,
        action=action,
        paused_at=paused_at,
        pause_reason=pause_reason,
    )
