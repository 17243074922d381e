"""A store in memory for one schedule; it fails if an occurrence is made twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec

from duly.domain.schedules import revisions
from duly.domain.schedules.planning import Drop, Plan, Planned, Planning
from duly.domain.schedules.revisions import Revision
from duly.domain.schedules.schedule import Contents, ScheduleTiming, StoredSchedule, decode_occasion
from duly.domain.time.rules import Rule

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = (
    timedelta(**{each: 1}) for each in ("seconds", "minutes", "hours", "days")
)
CONTENTS = Contents(target="mail", payload=b"[1]")


class Entry(msgspec.Struct):
    """A delivery: `pending` until it is claimed."""

    occurrence: str
    due_at: datetime
    scheduled_for: datetime
    merged: int
    state: str = "pending"


class FakeStore:
    """One schedule and its deliveries."""

    def __init__(self, rule: Rule, now: datetime = NOON, **timing: Any) -> None:
        self.entries: dict[str, Entry] = {}
        self._numbers = count(1)
        made = revisions.create(
            "daily", ScheduleTiming(rule=rule, **timing), CONTENTS, now, self.new_id
        )
        self.schedule = StoredSchedule(
            id=7,
            name="daily",
            version=1,
            timing=made.timing,
            contents=made.contents,
            progress=made.plan.progress,
            created_at=now,
            updated_at=now,
        )
        self.revise(made)

    def new_id(self) -> str:
        return f"n{next(self._numbers)}"

    @property
    def untouched(self) -> bool:
        """Whether the next delivery is not claimed yet."""
        made_id = self.schedule.progress.made_id
        return made_id in self.entries and self.entries[made_id].state == "pending"

    @property
    def late(self) -> str | None:
        """The delivery of the previous occurrence, if it is not claimed yet."""
        fired = self.schedule.progress.fired
        found = (id for id, each in self.entries.items() if each.occurrence == fired)
        return next((id for id in found if self.entries[id].state == "pending"), None)

    def plan(self, now: datetime) -> Plan | None:
        """Plan as a planner does at that moment; None if nothing is due."""
        next_at = self.schedule.progress.next_at
        if next_at is None or next_at > now:
            return None
        planning = Planning("daily", self.schedule.timing, self.schedule.progress, now, self.new_id)
        plan = planning.plan(untouched=self.untouched)
        self.write(plan)
        return plan

    def claim(self, now: datetime) -> list[str]:
        """Claim all due deliveries; returns their occurrences in order."""
        due = [each for each in self.entries.values() if each.due_at <= now]
        found = sorted((each for each in due if each.state == "pending"), key=lambda e: e.due_at)
        for each in found:
            each.state = "done"
        return [each.occurrence for each in found]

    def change(self, now: datetime, contents: Contents = CONTENTS, **timing: Any) -> Revision:
        """Declare the schedule with changes."""
        changed = msgspec.structs.replace(self.schedule.timing, **timing)
        return self.revise(
            revisions.change(
                self.schedule,
                changed,
                contents,
                now,
                self.new_id,
                untouched=self.untouched,
                late=self.late,
            )
        )

    def pause(self, now: datetime) -> Revision:
        return self.revise(revisions.pause(self.schedule, "why not", now, untouched=self.untouched))

    def resume(self, now: datetime, *, from_pause: bool = False) -> Revision:
        return self.revise(revisions.resume(self.schedule, now, self.new_id, from_pause=from_pause))

    def revise(self, revision: Revision) -> Revision:
        self.schedule = msgspec.structs.replace(
            self.schedule,
            timing=revision.timing,
            contents=revision.contents,
            paused_at=revision.paused_at,
            pause_reason=revision.pause_reason,
        )
        self.write(revision.plan)
        return revision

    def write(self, plan: Plan) -> None:
        for id, how in plan.drop:
            self._drop(id, how)
        for moved in plan.move:
            assert self.entries[moved.id].state == "pending", "already claimed"
            self._put(moved)
        for planned in plan.make:
            assert planned.id not in self.entries
            self._put(planned)
        self.schedule = msgspec.structs.replace(self.schedule, progress=plan.progress)

    def _put(self, planned: Planned) -> None:
        others = {id: each for id, each in self.entries.items() if id != planned.id}
        assert planned.occurrence not in {each.occurrence for each in others.values()}, "made twice"
        occasion = decode_occasion(planned.occasion)
        assert occasion.schedule == "daily"
        self.entries[planned.id] = Entry(
            planned.occurrence, planned.due_at, occasion.scheduled_for, occasion.merged
        )

    def _drop(self, id: str, how: Drop) -> None:
        assert self.entries[id].state == "pending", "already claimed"
        if how is Drop.WITHDRAWN:
            del self.entries[id]
        else:
            self.entries[id].state = str(how)

    def moments(self, *states: str) -> list[datetime]:
        """The moments for which deliveries were made, in order."""
        wanted = states or ("pending", "done")
        return sorted(e.scheduled_for for e in self.entries.values() if e.state in wanted)

    @property
    def upcoming(self) -> datetime | None:
        """The moment of the next delivery."""
        return self.schedule.progress.made_at

    def counts(self) -> tuple[int, int, int]:
        """The counts of runs, merged and skipped occurrences."""
        progress = self.schedule.progress
        return progress.runs, progress.merged, progress.skipped
