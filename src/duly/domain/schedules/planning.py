"""Deciding what a schedule makes next: pure, so that a planner only has to write it down.

Everything in (last made, now] was missed. Some of it is made by the catch-up rule, the rest is
merged or skipped, and counted; then the next occurrence in the future goes on the books. The one
that was on the books already belongs to what was missed, if it is late and nobody touched it.
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
    CatchUp,
    Occasion,
    ScheduleProgress,
    ScheduleTiming,
    due_at,
    encode_occasion,
    zone_mark,
)
from duly.domain.time.occurrences import Occurrence
from duly.domain.time.rules import Rule, Yearly

STILL_FRESH = timedelta(seconds=60)
INSTANT = timedelta(microseconds=1)
NewId = Callable[[], str]


class Planned(msgspec.Struct, frozen=True):
    """An occurrence to put on the books, or what the one there becomes."""

    id: str
    occurrence: str
    due_at: datetime
    occasion: str


class Drop(StrEnum):
    """How an occurrence leaves the books that nobody has touched."""

    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"
    """As if it had never been made: a resumed schedule may make it again."""


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
    """The plan of a schedule without limits that missed nothing: what Planning says, but sooner.

    None for any other. Of a hundred thousand that fall due at once, these are nearly all.
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
    """One schedule being planned at one moment."""

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
        self._was = progress
        self._new_id = new_id
        self._after = progress.fired_at if progress.made_at is None else progress.made_at
        if timing.starts_at is not None:
            self._after = max(self._after, timing.starts_at - INSTANT)
        self._done = progress.fired if progress.made is None else progress.made
        has_window = timing.window is not None and not timing.is_never_missed
        self._begins = now - timedelta(seconds=timing.window or 0) if has_window else None
        self._until = now if timing.ends_at is None else min(now, timing.ends_at)
        self._first = first_following(timing.rule, self._done, self._after)
        self._kept: list[tuple[str, Occurrence, int]] = []
        self._make: list[Planned] = []
        self._move: Planned | None = None
        self._drop: tuple[str, Drop] | None = None
        self._left = None if timing.max_runs is None else timing.max_runs - progress.runs
        self._runs = self._merged = self._skipped = 0

    @property
    def is_behind(self) -> bool:
        """Whether anything but the next occurrence has to be decided."""
        was = self._was
        if was.made is not None and self._is_stale(_on_books(was)):
            return True
        return self._first is not None and self._first.at <= self._until

    def plan(self, *, untouched: bool) -> Plan:
        """Decide; `untouched` says that the one on the books was not yet claimed."""
        if not self.is_behind:
            return self._with_next()
        waiting = untouched and self._was.made is not None and self._is_late(_on_books(self._was))
        if self.timing.makes_up_all:
            self._make_all(waiting)
        elif self.timing.catch_up is CatchUp.LATEST:
            self._make_latest(waiting)
        else:
            self._make_fresh(waiting)
        return self._with_next()

    def _is_late(self, on_books: Occurrence) -> bool:
        return due_at(self.name, self.timing.jitter, on_books) <= self.now

    def _make_all(self, waiting: bool) -> None:
        since = self._since(waiting)
        cap = LARGEST_CAP if self.timing.is_never_missed else self.timing.cap
        room = cap - (1 if waiting and self._drop is None else 0)
        made = list(islice(self._missed(since), self._room(room)))
        rest = self._count(since) - len(made)
        for index, each in enumerate(made):
            self._add(each, rest if index == len(made) - 1 else 0)
        if rest and not made:
            self._merge_into_waiting(waiting, rest)
        self._merged += rest

    def _merge_into_waiting(self, waiting: bool, rest: int) -> None:
        if waiting and self._drop is None:
            self._become(_on_books(self._was), rest)

    def _make_latest(self, waiting: bool) -> None:
        since = self._since(waiting)
        missed = self._count(since)
        if not missed:
            return
        latest = self._last(since)
        assert latest is not None
        if waiting:
            was_kept = self._drop is None
            merged = missed - 1 + (1 if was_kept else 0)
            self._drop = None
            self._become(latest, merged)
        elif self._room(1):
            merged = missed - 1
            self._add(latest, merged)
        else:
            merged = missed
        self._merged += merged

    def _make_fresh(self, waiting: bool) -> None:
        if waiting and self._is_stale(_on_books(self._was)):
            self._skip_waiting()
        fresh_from = self.now - STILL_FRESH
        if self._begins is not None:
            fresh_from = max(fresh_from, self._begins)
        fresh_since = max(self._after, fresh_from - INSTANT)
        self._skipped += self._count(self._after, min(fresh_since, self._until))
        for each in islice(self._missed(fresh_since), self._room(self.timing.cap)):
            self._add(each, 0)

    def _since(self, waiting: bool) -> datetime:
        """Where the window begins; what lies before it is skipped, on the books too when late."""
        if self._begins is None:
            return self._after
        if waiting and self._is_stale(_on_books(self._was)):
            self._skip_waiting()
        since = max(self._after, self._begins - INSTANT)
        self._skipped += self._count(self._after, min(since, self._until))
        return since

    def _skip_waiting(self) -> None:
        assert self._was.made_id is not None
        self._drop = (self._was.made_id, Drop.SKIPPED)
        self._skipped += 1

    def _is_stale(self, on_books: Occurrence) -> bool:
        if due_at(self.name, self.timing.jitter, on_books) >= self.now - STILL_FRESH:
            # It is not missed yet: somebody is about to claim it.
            return False
        is_skipping = self.timing.catch_up is CatchUp.SKIP and not self.timing.makes_up_all
        return is_skipping or (self._begins is not None and on_books.at < self._begins)

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
        if self._left is None:
            return max(wanted, 0)
        given_back = 0 if self._drop is None else 1
        return max(0, min(wanted, self._left + given_back - self._runs))

    def _add(self, occurrence: Occurrence, merged: int) -> None:
        planned = self._planned(self._new_id(), occurrence, merged)
        self._make.append(planned)
        self._kept.append((planned.id, occurrence, merged))
        self._runs += 1

    def _become(self, occurrence: Occurrence, merged: int) -> None:
        assert self._was.made_id is not None
        self._move = self._planned(self._was.made_id, occurrence, merged)
        self._kept.append((self._was.made_id, occurrence, merged))

    def _planned(self, id: str, occurrence: Occurrence, merged: int) -> Planned:
        occasion = Occasion(self.name, occurrence.at, merged, self.timing.overlap)
        due = due_at(self.name, self.timing.jitter, occurrence)
        return Planned(id, occurrence.identity, due, encode_occasion(occasion))

    def _with_next(self) -> Plan:
        """Put the next occurrence on the books and say how far the schedule has come."""
        fired, fired_at = self._last_decided()
        following_one = self._upcoming(fired, fired_at)
        if following_one is not None:
            self._add(following_one, 0)
        return self._finished(fired, fired_at, following_one)

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
        was = self._was
        zone, zone_hash, zone_version = zone_mark(self.timing.rule)
        progress = ScheduleProgress(
            fired=fired,
            # All up to now is decided, and a clock that steps back must not decide it again.
            fired_at=max(fired_at, self._until),
            made=None if upcoming is None else upcoming.identity,
            made_at=None if upcoming is None else upcoming.at,
            made_id=None if upcoming is None else self._make[-1].id,
            next_at=None if upcoming is None else upcoming.at,
            runs=was.runs + self._runs - (1 if self._drop else 0),
            merged=was.merged + self._merged,
            skipped=was.skipped + self._skipped,
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

    Remembered: what falls due together mostly goes on together too.
    """
    return next(following(rule, done, after), None)


def following(rule: Rule, done: str | None, after: datetime) -> Iterator[Occurrence]:
    """The occurrences after a moment, without those that were made already.

    A year is done once, whatever its moment has become since.
    """
    for each in rule.occurrences(after):
        if done is None or not _is_done(rule, each.identity, done):
            yield each


def _is_done(rule: Rule, identity: str, done: str) -> bool:
    if isinstance(rule, Yearly) and done.isdecimal():
        return int(identity) <= int(done)
    return identity == done


def _on_books(progress: ScheduleProgress) -> Occurrence:
    assert progress.made is not None
    assert progress.made_at is not None
    return Occurrence(progress.made, progress.made_at)
