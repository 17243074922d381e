"""Schedules as people handle them: declared, listed, paused, resumed, triggered, back-filled."""

from __future__ import annotations

import builtins
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar, Unpack

import msgspec

from duly.domain import checks
from duly.domain.schedules import options as schedule_options
from duly.domain.schedules import revisions
from duly.domain.schedules.options import Keyworded, checked_options
from duly.domain.schedules.planning import INSTANT, Planned
from duly.domain.schedules.revisions import Revision, Unclaimed
from duly.domain.schedules.schedule import (
    Contents,
    Occasion,
    ScheduleTiming,
    StoredSchedule,
    encode_occasion,
    no_schedule,
)
from duly.domain.time.occurrences import Occurrence
from duly.domain.time.rules import Rule
from duly.errors import NOT_YET, InvalidInput, Outdated
from duly.ports import Chance, Clock, Store, UnreadableSchedule, transaction_of
from duly.records.target import EndpointTarget, Webhook
from duly.services.interruption import ended

BACKFILL_SLICE = 500
MOST_BACKFILLED = 100_000
Check = Callable[[Collection[str]], Awaitable[object]]
Target = str | Webhook | EndpointTarget
Addressed = Callable[[Target], tuple[str, str | None]]
Item = tuple[str, Rule, Target, Any, Mapping[str, Any]]


Function = TypeVar("Function", bound=Callable[..., Any])
Decorated = tuple[Callable[..., Any], Rule, str | None, Any, Keyworded]


class Declaration(Keyworded, total=False):
    """What may be said where a schedule is declared, besides its options."""

    version: int | None
    connection: Any


class Declared(msgspec.Struct, frozen=True):
    """The answer to a declaration: the schedule, and whether it was created, changed or neither."""

    schedule: StoredSchedule
    change: str
    moved: Sequence[str] = ()
    """The deliveries that nobody had claimed yet, and that moved with it."""

    @property
    def next_at(self) -> datetime | None:
        """When its next occurrence is."""
        return self.schedule.progress.made_at


class Schedules:
    """The schedules of one app; `actor` is who the audit trail says it was."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        check: Check,
        payload_limit: int,
        actor: str = "python",
        addressed: Addressed | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._check = check
        self._addressed = addressed or _by_name
        self._payload_limit = payload_limit
        self.actor = actor
        self._decorated: builtins.list[Decorated] = []

    def around(
        self,
        rule: Rule,
        *,
        name: str | None = None,
        payload: Any = None,
        **options: Unpack[Keyworded],
    ) -> Callable[[Function], Function]:
        """Remember a schedule for the function that this decorates, until the app opens."""
        schedule_options.timing(rule, checked_options(options))

        def remember(function: Function) -> Function:
            self._decorated.append((function, rule, name, payload, options))
            return function

        return remember

    async def declare_all(self, name_of: Callable[[Callable[..., Any]], str]) -> None:
        """Declare the schedules that stand around handlers."""
        named = [(each[2] or name_of(each[0]), each) for each in self._decorated]
        names = [name for name, _ in named]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InvalidInput("name", f"{twice[0]!r} is declared twice; give one of them a name=")
        for name, (function, rule, _, payload, options) in named:
            await self.declare(name, rule, name_of(function), payload, **options)

    async def declare(
        self,
        name: str,
        rule: Rule,
        target: Target,
        payload: Any = None,
        *,
        version: int | None = None,
        connection: Any = None,
        **given: Unpack[Keyworded],
    ) -> Declared:
        """Create or change a schedule by its name; the same again changes nothing.

        What it has on the books moves with it, in the same transaction: one of its own, or the one
        that is open in `connection`. Outdated when it is not, or no longer, at the `version` that
        is given, which is 0 for one that is not there yet.
        """
        name, timing, contents = self._checked(name, rule, target, payload, given)
        await self._check([contents.target])

        def decide(
            was: StoredSchedule | None, now: datetime, unclaimed: Unclaimed
        ) -> Revision | None:
            new_id = self._chance.delivery_id
            _check_version(was, name, version)
            if was is None:
                return revisions.create(name, timing, contents, now, new_id)
            if (was.timing, was.contents) == (timing, contents):
                return None
            return revisions.change(
                was,
                timing,
                contents,
                now,
                new_id,
                untouched=unclaimed.next,
                late=unclaimed.late,
            )

        schedule, revision = await self._revised(name, decide, connection)
        if revision is None:
            return Declared(schedule, "unchanged")
        return Declared(schedule, revision.action, [each.id for each in revision.plan.move])

    async def create_many(self, items: Iterable[Item], *, connection: Any = None) -> None:
        """Create many schedules, all or none; Conflict when one of the names is taken.

        An item is (name, rule, target, payload, options).
        """
        new = [self._checked(*each) for each in items]
        if not new:
            return
        await self._check({contents.target for _, _, contents in new})

        def decide(now: datetime) -> list[tuple[str, Revision]]:
            new_id = self._chance.delivery_id
            return [(each[0], revisions.create(*each, now, new_id)) for each in new]

        transaction = None if connection is None else await transaction_of(connection)
        await self._store.schedules.create_all(decide, self.actor, transaction)
        if connection is None:
            self._store.wakeups.hint()

    def _checked(
        self, name: str, rule: Rule, target: Target, payload: Any, given: Mapping[str, Any]
    ) -> tuple[str, ScheduleTiming, Contents]:
        options = checked_options(given)
        name = checks.checked_text("name", name)
        timing = schedule_options.timing(rule, options)
        where, address = self._addressed(target)
        limit = self._payload_limit
        return name, timing, schedule_options.contents(where, payload, options, limit, address)

    async def unfinished(self, name: str, *, connection: Any = None) -> Sequence[str]:
        """The deliveries that it made and that are not finished, but for the next on the books.

        They go out as they were made, whatever becomes of the schedule. Of the latest hundred.
        """
        transaction = None if connection is None else await transaction_of(connection)
        return await self._store.schedules.unfinished(name, transaction)

    async def get(self, name: str) -> StoredSchedule:
        """One schedule, or NotFound."""
        return await self._store.schedules.get(checks.checked_text("name", name))

    async def list(
        self, *, after: str = "", limit: int = 50
    ) -> Sequence[StoredSchedule | UnreadableSchedule]:
        """Schedules by name; `after` is the last name of the page before."""
        start = checks.checked_start("after", after)
        return await self._store.schedules.page(start, checks.checked_limit(limit))

    async def pause(self, name: str, reason: str | None = None) -> StoredSchedule:
        """Make nothing until it is resumed; what is under way goes on.

        One that is paused already stays as it is.
        """
        reason = None if reason is None else checks.checked_text("reason", reason, 1000)

        def decide(
            was: StoredSchedule | None, now: datetime, unclaimed: Unclaimed
        ) -> Revision | None:
            return revisions.pause(_known(was, name), reason, now, untouched=unclaimed.next)

        return (await self._revised(name, decide, reason=reason))[0]

    async def resume(self, name: str, *, from_pause: bool = False) -> StoredSchedule:
        """Go on from now; or with what was missed since the pause, by its catch-up rule.

        One that is not paused stays as it is.
        """

        def decide(
            was: StoredSchedule | None,
            now: datetime,
            unclaimed: Unclaimed,  # noqa: ARG001
        ) -> Revision | None:
            new_id = self._chance.delivery_id
            return revisions.resume(_known(was, name), now, new_id, from_pause=from_pause)

        return (await self._revised(name, decide, from_pause=from_pause))[0]

    async def remove(
        self, name: str, *, version: int | None = None, connection: Any = None
    ) -> StoredSchedule:
        """End it: what is pending is cancelled, what is under way goes on."""

        def decide(was: StoredSchedule | None, now: datetime, unclaimed: Unclaimed) -> Revision:  # noqa: ARG001
            _check_version(_known(was, name), name, version)
            return revisions.remove(_known(was, name), untouched=unclaimed.next)

        return (await self._revised(name, decide, connection))[0]

    async def trigger(self, name: str, *, id: str | None = None) -> str:
        """Make one delivery now, beside the plan, paused or not; returns its id.

        With an `id` given, the same again makes nothing more.
        """
        schedule = await self.get(name)
        id = self._chance.delivery_id() if id is None else checks.checked_id(id)
        now, _ = await self._store.plans.clock()
        run = _beside(schedule, id, Occurrence(f"triggered {id}", now), now)
        await self._store.schedules.add_runs(schedule, [run], self.actor)
        self._store.wakeups.hint()
        return id

    async def backfill(self, name: str, start: datetime, end: datetime) -> AsyncIterator[int]:
        """Make the occurrences from start to end that were never made, due now.

        Yields how many were new after each slice; safe to repeat, as long as what ran was not
        pruned. Nothing is made before the schedule's own start or after its end.
        """
        schedule, now, left = await self._range(name, start, end)
        begins = max(start, schedule.timing.starts_at or start)
        found = schedule.timing.rule.occurrences(begins - INSTANT)
        while part := list(islice(found, min(BACKFILL_SLICE, left))):
            left -= len(part)
            runs = [_beside(schedule, self._chance.delivery_id(), each, now) for each in part]
            made, cancelled = await ended(
                self._store.schedules.add_runs(schedule, runs, self.actor)
            )
            self._store.wakeups.hint()
            yield made
            if cancelled is not None:
                raise cancelled

    async def count_backfill(self, name: str, start: datetime, end: datetime) -> int:
        """How many occurrences a backfill would look at."""
        return (await self._range(name, start, end))[2]

    async def _range(
        self, name: str, start: datetime, end: datetime
    ) -> tuple[StoredSchedule, datetime, int]:
        schedule = await self.get(name)
        start, end = checks.checked_moment("start", start), checks.checked_moment("end", end)
        now, _ = await self._store.plans.clock()
        if not start <= end <= now:
            raise InvalidInput("end", "give a range in the past: start <= end <= now")
        start = max(start, schedule.timing.starts_at or start)
        end = min(end, schedule.timing.ends_at or end)
        many = schedule.timing.rule.count(start - INSTANT, end) if start <= end else 0
        if many > MOST_BACKFILLED:
            raise InvalidInput(
                "start", f"{many} moments are more than {MOST_BACKFILLED}; take a shorter range"
            )
        return schedule, now, many

    async def preview(self, name: str, n: int = 5) -> Sequence[datetime]:
        """The next moments of a schedule as it stands; of a paused one, as if it went on now."""
        schedule = await self.get(name)
        timing, progress = schedule.timing, schedule.progress
        now, _ = await self._store.plans.clock()
        begins = progress.made_at or timing.starts_at or now
        found = timing.rule.preview(n, after=max(now, begins - INSTANT))
        ends_at = timing.ends_at
        return [each for each in found if ends_at is None or each <= ends_at][: _left(schedule)]

    async def _revised(
        self,
        name: str,
        decide: Callable[[StoredSchedule | None, datetime, Unclaimed], Revision | None],
        connection: Any = None,
        **detail: Any,
    ) -> tuple[StoredSchedule, Revision | None]:
        transaction = None if connection is None else await transaction_of(connection)
        schedule, revision = await self._store.schedules.revise(
            checks.checked_text("name", name), decide, self.actor, detail or None, transaction
        )
        assert schedule is not None
        if transaction is not None:
            return schedule, revision
        now = self._clock.now()
        if revision is not None and any(each.due_at <= now for each in _made(revision)):
            self._store.wakeups.hint()
        return schedule, revision


def _by_name(target: Target) -> tuple[str, str | None]:
    return checks.checked_name("target", target), None


def _made(revision: Revision) -> Sequence[Planned]:
    return [*revision.plan.make, *revision.plan.move]


def _known(schedule: StoredSchedule | None, name: str) -> StoredSchedule:
    if schedule is None:
        raise no_schedule(name)
    return schedule


def _check_version(schedule: StoredSchedule | None, name: str, version: int | None) -> None:
    present = None if schedule is None else schedule.version
    if version is not None and version != (present or NOT_YET):
        raise Outdated("schedule", name, present, version)


def _left(schedule: StoredSchedule) -> int | None:
    """How many occurrences may still come, the one on the books included; None for any number."""
    if schedule.timing.max_runs is None:
        return None
    made = schedule.progress.runs - (schedule.progress.made is not None)
    return max(0, schedule.timing.max_runs - made)


def _beside(schedule: StoredSchedule, id: str, occurrence: Occurrence, now: datetime) -> Planned:
    occasion = Occasion(schedule.name, occurrence.at, 0, schedule.timing.overlap)
    return Planned(id, occurrence.identity, now, encode_occasion(occasion))
