"""Decides which deliveries a schedule makes next; the planner writes the result.

Every occurrence in (last made, now] was missed. The catch-up rule decides which of them are made;
the others are merged or skipped, and counted. Then the next future occurrence is made. The
occurrence that is already stored counts as missed if it is late and not yet claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import islice, takewhile

import msgspec

from duly.domain.schedules.schedule import (
    LARGEST_CAP,
    Occasion,
    ScheduleProgress,
    ScheduleTiming,
    due_at,
    encode_occasion,
    zone_mark,
)
from duly.domain.time.occurrences import Occurrence
from duly.domain.time.rules import Rule, Yearly
from duly.records.schedule import CatchUp

STILL_FRESH = timedelta(seconds=60)
INSTANT = timedelta(microseconds=1)
NewId = Callable[[], str]


class Planned(msgspec.Struct, frozen=True):
    """An occurrence to store, or the new values of the stored one."""

    id: str
    occurrence: str
    due_at: datetime
    occasion: str


class Drop(StrEnum):
    """How a stored occurrence that was not claimed is removed."""

    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"
    """Deleted, so that a resumed schedule may make it again."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to write for one schedule."""

    progress: ScheduleProgress
    make: list[Planned] = []
    move: list[Planned] = []
    drop: list[tuple[str, Drop]] = []
    merged: int = 0
    skipped: int = 0


def usual_plan(
    name: str, timing: ScheduleTiming, progress: ScheduleProgress, now: datetime, new_id: NewId
) -> Plan | None:
    """A fast path with the same result as Planning, for schedules with a rule only.

    None if other options are set or an occurrence was missed. Most schedules take this path.
    """
    made, made_at = progress.made, progress.made_at
    if made is None or made_at is None or not timing.is_plain:
        return None
    upcoming = first_following(timing.rule, made, made_at)
    if upcoming is None or upcoming.at <= now:
        return None
    id, at = new_id(), upcoming.at
    occasion = encode_occasion(Occasion(name, at, 0, timing.overlap))
    zone, zone_hash, zone_version = zone_mark(timing.rule)
    after = ScheduleProgress(
        fired=made,
        fired_at=max(made_at, now),
        made=upcoming.identity,
        made_at=at,
        made_id=id,
        next_at=at,
        runs=progress.runs + 1,
        merged=progress.merged,
        skipped=progress.skipped,
        zone=zone,
        zone_hash=zone_hash,
        zone_version=zone_version,
    )
    return Plan(progress=after, make=[Planned(id, upcoming.identity, at, occasion)])


class Planning:
    """The planning of one schedule at one moment."""

    def __init__(
        self,
        name: str,
        timing: ScheduleTiming,
        progress: ScheduleProgress,
        now: datetime,
        new_id: NewId,
    ) -> None:
        self.name = name
        self.timing = timing
        self.now = now
        self._old = progress
        self._new_id = new_id
        self._after = progress.fired_at if progress.made_at is None else progress.made_at
        if timing.starts_at is not None:
            self._after = max(self._after, timing.starts_at - INSTANT)
        self._done = progress.fired if progress.made is None else progress.made
        has_window = timing.window is not None and not timing.is_never_missed
        self._window_start = now - timedelta(seconds=timing.window or 0) if has_window else None
        self._until = now if timing.ends_at is None else min(now, timing.ends_at)
        self._first = first_following(timing.rule, self._done, self._after)
        self._kept: list[tuple[str, Occurrence, int]] = []
        self._make: list[Planned] = []
        self._move: Planned | None = None
        self._drop: tuple[str, Drop] | None = None
        self._runs_left = None if timing.max_runs is None else timing.max_runs - progress.runs
        self._runs = self._merged = self._skipped = 0

    @property
    def is_behind(self) -> bool:
        """Whether occurrences were missed, so that more than the next one must be decided."""
        old = self._old
        if old.made is not None and self._is_stale(_stored_occurrence(old)):
            return True
        return self._first is not None and self._first.at <= self._until

    def plan(self, *, untouched: bool) -> Plan:
        """Decide what to write; `untouched` means that the stored occurrence is not yet claimed."""
        if not self.is_behind:
            return self._with_next()
        waiting = (
            untouched
            and self._old.made is not None
            and self._is_late(_stored_occurrence(self._old))
        )
        if self.timing.makes_up_all:
            self._make_all(waiting)
        elif self.timing.catch_up is CatchUp.LATEST:
            self._make_latest(waiting)
        else:
            self._make_fresh(waiting)
        return self._with_next()

    def _is_late(self, stored: Occurrence) -> bool:
        return due_at(self.name, self.timing.jitter, stored) <= self.now

    def _make_all(self, waiting: bool) -> None:
        since = self._since(waiting)
        cap = LARGEST_CAP if self.timing.is_never_missed else self.timing.cap
        room = cap - (1 if waiting and self._drop is None else 0)
        made = list(islice(self._missed(since), self._room(room)))
        rest = self._count(since) - len(made)
        for index, each in enumerate(made):
            self._add(each, rest if index == len(made) - 1 else 0)
        if rest and not made:
            self._merge_into_stored(waiting, rest)
        self._merged += rest

    def _merge_into_stored(self, waiting: bool, rest: int) -> None:
        if waiting and self._drop is None:
            self._replace_stored(_stored_occurrence(self._old), rest)

    def _make_latest(self, waiting: bool) -> None:
        since = self._since(waiting)
        missed = self._count(since)
        if not missed:
            return
        latest = self._last(since)
        assert latest is not None
        if waiting:
            is_kept = self._drop is None
            merged = missed - 1 + (1 if is_kept else 0)
            self._drop = None
            self._replace_stored(latest, merged)
        elif self._room(1):
            merged = missed - 1
            self._add(latest, merged)
        else:
            merged = missed
        self._merged += merged

    def _make_fresh(self, waiting: bool) -> None:
        if waiting and self._is_stale(_stored_occurrence(self._old)):
            self._skip_stored()
        fresh_from = self.now - STILL_FRESH
        if self._window_start is not None:
            fresh_from = max(fresh_from, self._window_start)
        fresh_since = max(self._after, fresh_from - INSTANT)
        self._skipped += self._count(self._after, min(fresh_since, self._until))
        for each in islice(self._missed(fresh_since), self._room(self.timing.cap)):
            self._add(each, 0)

    def _since(self, waiting: bool) -> datetime:
        """The start of the window; earlier occurrences are skipped, the stored one too if late."""
        if self._window_start is None:
            return self._after
        if waiting and self._is_stale(_stored_occurrence(self._old)):
            self._skip_stored()
        since = max(self._after, self._window_start - INSTANT)
        self._skipped += self._count(self._after, min(since, self._until))
        return since

    def _skip_stored(self) -> None:
        assert self._old.made_id is not None
        self._drop = (self._old.made_id, Drop.SKIPPED)
        self._skipped += 1

    def _is_stale(self, stored: Occurrence) -> bool:
        if due_at(self.name, self.timing.jitter, stored) >= self.now - STILL_FRESH:
            # Not missed yet: a worker may be about to claim it.
            return False
        is_skipping = self.timing.catch_up is CatchUp.SKIP and not self.timing.makes_up_all
        return is_skipping or (self._window_start is not None and stored.at < self._window_start)

    def _missed(self, since: datetime) -> Iterator[Occurrence]:
        found = following(self.timing.rule, self._done, since)
        return takewhile(lambda each: each.at <= self._until, found)

    def _count(self, since: datetime, until: datetime | None = None) -> int:
        until = self._until if until is None else until
        if isinstance(self.timing.rule, Yearly):
            return sum(1 for each in self._missed(since) if each.at <= until)
        return self.timing.rule.count(since, until) if until > since else 0

    def _last(self, since: datetime) -> Occurrence | None:
        return self.timing.rule.last(since, self._until)

    def _room(self, wanted: int) -> int:
        if self._runs_left is None:
            return max(wanted, 0)
        given_back = 0 if self._drop is None else 1
        return max(0, min(wanted, self._runs_left + given_back - self._runs))

    def _add(self, occurrence: Occurrence, merged: int) -> None:
        planned = self._planned(self._new_id(), occurrence, merged)
        self._make.append(planned)
        self._kept.append((planned.id, occurrence, merged))
        self._runs += 1

    def _replace_stored(self, occurrence: Occurrence, merged: int) -> None:
        assert self._old.made_id is not None
        self._move = self._planned(self._old.made_id, occurrence, merged)
        self._kept.append((self._old.made_id, occurrence, merged))

    def _planned(self, id: str, occurrence: Occurrence, merged: int) -> Planned:
        occasion = Occasion(self.name, occurrence.at, merged, self.timing.overlap)
        due = due_at(self.name, self.timing.jitter, occurrence)
        return Planned(id, occurrence.identity, due, encode_occasion(occasion))

    def _with_next(self) -> Plan:
        """Add the next occurrence and the new progress to the plan."""
        fired, fired_at = self._last_decided()
        upcoming = self._upcoming(fired, fired_at)
        if upcoming is not None:
            self._add(upcoming, 0)
        return self._finished(fired, fired_at, upcoming)

    def _last_decided(self) -> tuple[str | None, datetime]:
        if self._kept:
            last = self._kept[-1][1]
            return last.identity, max(last.at, self._after)
        return self._done, self._after

    def _upcoming(self, fired: str | None, fired_at: datetime) -> Occurrence | None:
        if not self._room(1):
            return None
        after, found = max(self.now, fired_at), self._first
        if found is not None and found.at <= after:
            found = first_following(self.timing.rule, fired, after)
        if found is None or (self.timing.ends_at is not None and found.at > self.timing.ends_at):
            return None
        return found

    def _finished(self, fired: str | None, fired_at: datetime, upcoming: Occurrence | None) -> Plan:
        old = self._old
        zone, zone_hash, zone_version = zone_mark(self.timing.rule)
        progress = ScheduleProgress(
            fired=fired,
            # Everything up to now is decided; it must stay so if the clock steps back.
            fired_at=max(fired_at, self._until),
            made=None if upcoming is None else upcoming.identity,
            made_at=None if upcoming is None else upcoming.at,
            made_id=None if upcoming is None else self._make[-1].id,
            next_at=None if upcoming is None else upcoming.at,
            runs=old.runs + self._runs - (1 if self._drop else 0),
            merged=old.merged + self._merged,
            skipped=old.skipped + self._skipped,
            zone=zone,
            zone_hash=zone_hash,
            zone_version=zone_version,
        )
        return Plan(
            progress=progress,
            make=self._make,
            move=[] if self._move is None else [self._move],
            drop=[] if self._drop is None else [self._drop],
            merged=self._merged,
            skipped=self._skipped,
        )


@lru_cache(4096)
def first_following(rule: Rule, done: str | None, after: datetime) -> Occurrence | None:
    """The first occurrence after a moment that was not made already.

    Cached: schedules due together often have the same rule.
    """
    return next(following(rule, done, after), None)


def following(rule: Rule, done: str | None, after: datetime) -> Iterator[Occurrence]:
    """The occurrences after a moment, without those that were made already.

    A year is made only once, even if an edit has changed its moment since.
    """
    for each in rule.occurrences(after):
        if done is None or not _is_done(rule, each.identity, done):
            yield each


def _is_done(rule: Rule, identity: str, done: str) -> bool:
    if isinstance(rule, Yearly) and done.isdecimal():
        return int(identity) <= int(done)
    return identity == done


def _stored_occurrence(progress: ScheduleProgress) -> Occurrence:
    assert progress.made is not None
    assert progress.made_at is not None
    return Occurrence(progress.made, progress.made_at)
