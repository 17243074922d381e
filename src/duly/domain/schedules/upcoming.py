"""Moments of a rule, in UTC and in its time zone, and why others are missing or moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

import msgspec
from msgspec import UNSET

from duly.domain.moments import EPOCH
from duly.domain.schedules.planning import INSTANT
from duly.domain.time.business_days import Except, LocalDays, day_of_number
from duly.domain.time.cron import pattern
from duly.domain.time.rules import At, Cron, Rule, Yearly, calendar_of, parts_of
from duly.domain.time.zones import zone
from duly.records.schedule import LeftOut, UpcomingRun

UTC_NAME = "UTC"
MOST_LEFT_OUT = 50
"""How many days are named before one moment."""


def upcoming_runs(
    rule: Rule, found: Sequence[datetime], tz: str | None = None, *, after: datetime | None = None
) -> list[UpcomingRun]:
    """The moments of a rule in its own zone; `tz` is used if it has none.

    With `after`, the first one names what was left out since then too.
    """
    name = rule.zone_name or tz or UTC_NAME
    clock = zone(name)
    runs = [UpcomingRun(each, each.astimezone(clock), _is_shifted(rule, each)) for each in found]
    if calendar_of(rule) is None:
        return runs
    runs = [msgspec.structs.replace(each, **_moved(rule, each)) for each in runs]
    moved = {each.moved_from for each in runs}
    return [
        msgspec.structs.replace(
            run,
            left_out=tuple(
                each for each in _left_out(rule, name, since, run.at) if each.local not in moved
            ),
        )
        for since, run in zip([after, *found[:-1]], runs, strict=True)
    ]


def _is_shifted(rule: Rule, at: datetime) -> bool:
    found = next(rule.occurrences(at - INSTANT), None)
    return found is not None and found.at == at and found.shifted


def _moved(rule: Rule, run: UpcomingRun) -> dict[str, object]:
    """From where a calendar moved a moment, and why; empty if it is one of the rule itself."""
    for part in parts_of(rule):
        plain = msgspec.structs.replace(part, except_=UNSET)
        if plain.next_after(run.at - INSTANT) == run.at:
            return {}
    for part in parts_of(rule):
        if part.except_ is not UNSET and (source := _source(part, run)) is not None:
            return {"moved_from": source, "reason": _reason(part.except_, source)}
    return {}


def _source(part: Rule, run: UpcomingRun) -> datetime | None:
    """The local time from which a part of the rule moved a moment."""
    if isinstance(part, At):
        return part.moment.replace(tzinfo=run.local.tzinfo)
    if part.next_after(run.at - INSTANT) != run.at:
        return None
    if isinstance(part, Yearly):
        year = next(part.occurrences(run.at - INSTANT)).identity
        named = msgspec.structs.replace(part, except_=UNSET).of_year(int(year))
        return None if named is None else named.at.astimezone(run.local.tzinfo)
    if not isinstance(part, Cron) or part.except_ is UNSET:
        return None
    day = LocalDays(part.tz).day_of(run.at - EPOCH)
    sources = part.except_.known.sources(day, part.except_.move)
    found = next(filter(pattern(part.expression).days.matches, sources), day)
    return datetime.combine(day_of_number(found), run.local.timetz())


def _left_out(
    rule: Rule, zone_name: str, since: datetime | None, until: datetime
) -> tuple[LeftOut, ...]:
    """The closed days between two moments on which the rule would have moments."""
    if since is None:
        return ()
    found = (
        each
        for part in parts_of(rule)
        if part.except_ is not UNSET
        for each in islice(_closed(part, part.except_, zone_name, since, until), MOST_LEFT_OUT)
    )
    return tuple(sorted(found, key=lambda each: each.at)[:MOST_LEFT_OUT])


def _closed(
    part: Rule, given: Except, zone_name: str, since: datetime, until: datetime
) -> Iterator[LeftOut]:
    plain, days = msgspec.structs.replace(part, except_=UNSET), LocalDays(zone_name)
    while (at := plain.next_after(since)) is not None and at < until:
        since = at
        day = days.day_of(at - EPOCH)
        if given.known.is_closed(day):
            since = max(at, EPOCH + days.start(day + 1) - INSTANT)
            local = at.astimezone(zone(zone_name))
            target = given.known.moved(day, given.move)
            comes = "" if target is None else f"comes on {day_of_number(target)}: "
            yield LeftOut(at, local, comes + _reason(given, local), plain.count(at, since))


def _reason(given: Except, local: datetime) -> str:
    return f"{given.known.reason(local.date())} (calendar {given.calendar})"
