"""Schedules: declared, listed, paused, resumed and triggered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from duly.domain import checks
from duly.domain.deliveries.payloads import Checked
from duly.domain.endpoints.endpoint import endpoint, endpoint_name
from duly.domain.endpoints.webhooks import decode_webhook
from duly.domain.schedules import options as schedule_options
from duly.domain.schedules import revisions
from duly.domain.schedules.calendars import StoredCalendar, check_moments
from duly.domain.schedules.options import checked_options, options_of
from duly.domain.schedules.origin import Origin, after_takeover
from duly.domain.schedules.planning import Planned
from duly.domain.schedules.record import record_of
from duly.domain.schedules.revisions import Revision, Unclaimed
from duly.domain.schedules.schedule import Contents, ScheduleTiming, StoredSchedule, no_schedule
from duly.domain.time.occurrences import Occurrence
from duly.domain.time.rules import Rule
from duly.errors import NOT_YET, Outdated
from duly.ports import Chance, Clock, Store, transaction_of
from duly.records.schedule import (
    DeclaredSchedule,
    Schedule,
    ScheduleFilterKeywords,
    ScheduleKeywords,
    ScheduleSummary,
)
from duly.records.target import Target
from duly.services.schedules.backfill import Backfills, extra_run
from duly.services.schedules.bulk import BulkPauses
from duly.services.schedules.calendars import Timings, with_calendars
from duly.services.schedules.listing import checked_filter, listed
from duly.services.schedules.orphans import Orphans
from duly.services.schedules.previews import Previews
from duly.services.schedules.program import Program

Check = Callable[[Collection[str]], Awaitable[object]]
Addressed = Callable[[Target], tuple[str, str | None]]
Item = tuple[str, Rule, Target, Any, Mapping[str, Any]]
Wanted = tuple[str, ScheduleTiming, Contents]
DecideOrigin = Callable[[Origin | None], Origin | None]


class Declaration(ScheduleKeywords, total=False):
    """The keywords of a declaration: the options, and how it is stored."""

    version: int | None
    connection: Any


class Changes(ScheduleKeywords, total=False):
    """The fields of a schedule that an edit may change."""

    rule: Rule
    target: Target
    payload: Any


class Schedules:
    """The schedules of one namespace; the audit trail names `actor`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        check: Check,
        payload_limit: int,
        actor: str = "python",
        addressed: Addressed | None = None,
        program: Program | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._check = check
        self._addressed = addressed or _by_name
        self._payload_limit = payload_limit
        self._program = program
        self.actor = actor
        backfills = Backfills(store, chance, actor)
        self.backfill, self.count_backfill = backfills.run, backfills.count
        previews = Previews(store, clock)
        self.preview, self.explain = previews.preview, previews.explain
        orphans = Orphans(store, actor)
        self.orphans, self.remove_orphans = orphans.list, orphans.remove
        bulk = BulkPauses(store, self.pause, self.resume)
        self.pause_all, self.resume_all, self.count = bulk.pause, bulk.resume, bulk.count

    async def declare(
        self,
        name: str,
        rule: Rule,
        target: Target,
        payload: Any = None,
        *,
        version: int | None = None,
        connection: Any = None,
        **given: Unpack[ScheduleKeywords],
    ) -> DeclaredSchedule:
        """Create or change a schedule by its name; an equal declaration changes nothing.

        Its next delivery changes in the same transaction: a new one, or the open one of
        `connection`. Outdated if the schedule is not at the given `version`, which is 0 for a new
        schedule.
        """
        wanted = self._checked(name, rule, target, payload, given)
        program = None if self._program is None else self._program.by_name(wanted[0])
        return await self._declared(
            wanted, version, connection, origin=lambda was: after_takeover(was, program)
        )

    async def declare_in_code(
        self,
        origin: Origin,
        name: str,
        rule: Rule,
        target: Target,
        payload: Any = None,
        **given: Unpack[ScheduleKeywords],
    ) -> DeclaredSchedule:
        """Create or change a schedule that the code at `origin` declares."""
        wanted = self._checked(name, rule, target, payload, given)
        return await self._declared(wanted, origin=lambda _: origin)

    async def _declared(
        self,
        wanted: Wanted,
        version: int | None = None,
        connection: Any = None,
        *,
        origin: DecideOrigin | None = None,
    ) -> DeclaredSchedule:
        name, timing, contents = wanted
        await self._check([contents.target])
        return await with_calendars(
            self._store,
            [timing],
            lambda timings, calendars: self._declared_on(
                (name, timings[0], contents), version, connection, origin, calendars
            ),
        )

    async def _declared_on(
        self,
        wanted: Wanted,
        version: int | None,
        connection: Any,
        origin: DecideOrigin | None,
        calendars: Sequence[StoredCalendar],
    ) -> DeclaredSchedule:
        name, timing, contents = wanted

        def decide(
            was: StoredSchedule | None, now: datetime, unclaimed: Unclaimed
        ) -> Revision | None:
            new_id = self._chance.delivery_id
            _check_version(was, name, version)
            check_moments(timing.rule, now)
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

        schedule, revision = await self._revised(name, decide, connection, origin, calendars)
        if revision is None:
            return record_of(schedule, DeclaredSchedule, change="unchanged")
        moved = tuple(each.id for each in revision.plan.move)
        return record_of(schedule, DeclaredSchedule, change=revision.action, moved=moved)

    async def edit(
        self, name: str, *, version: int | None = None, **changes: Unpack[Changes]
    ) -> DeclaredSchedule:
        """Change only the given fields; Outdated if the schedule was changed concurrently."""
        was = await self._stored(name)
        kept = {
            "rule": was.timing.rule,
            "target": _target(was.contents),
            "payload": None if was.contents.payload is None else Checked(was.contents.payload),
            **options_of(was).keywords(),
        }
        given: dict[str, Any] = kept | changes
        rule, target, payload = (given.pop(each) for each in ("rule", "target", "payload"))
        wanted = self._checked(name, rule, target, payload, given)
        return await self._declared(wanted, was.version if version is None else version)

    async def create_many(self, items: Iterable[Item], *, connection: Any = None) -> None:
        """Create many schedules, all or none; Conflict if one of the names exists.

        An item is (name, rule, target, payload, options).
        """
        new = [self._checked(*each) for each in items]
        if not new:
            return
        await self._check({contents.target for _, _, contents in new})

        transaction = None if connection is None else await transaction_of(connection)

        async def create(timings: Timings, calendars: Sequence[StoredCalendar]) -> None:
            def decide(now: datetime) -> list[tuple[str, Revision]]:
                new_id, found = self._chance.delivery_id, []
                for (name, _, contents), timing in zip(new, timings, strict=True):
                    check_moments(timing.rule, now)
                    found.append((name, revisions.create(name, timing, contents, now, new_id)))
                return found

            await self._store.schedules.create_all(
                decide, self.actor, transaction, calendars=calendars
            )

        await with_calendars(self._store, [timing for _, timing, _ in new], create)
        if connection is None:
            self._store.wakeups.hint()

    def _checked(
        self, name: str, rule: Rule, target: Target, payload: Any, given: Mapping[str, Any]
    ) -> Wanted:
        options = checked_options(given)
        name = checks.checked_text("name", name)
        timing = schedule_options.timing(rule, options)
        where, address = self._addressed(target)
        limit = self._payload_limit
        return name, timing, schedule_options.contents(where, payload, options, limit, address)

    async def unfinished(self, name: str, *, connection: Any = None) -> Sequence[str]:
        """Unfinished deliveries among its latest hundred, without the next one.

        They do not change if the schedule is changed or removed.
        """
        transaction = None if connection is None else await transaction_of(connection)
        return await self._store.schedules.unfinished(name, transaction)

    async def get(self, name: str) -> Schedule:
        """One schedule, or NotFound."""
        return record_of(await self._stored(name), Schedule)

    async def list(
        self, *, after: str = "", limit: int = 50, **wanted: Unpack[ScheduleFilterKeywords]
    ) -> Sequence[ScheduleSummary]:
        """Schedules by name; `after` is the last name of the previous page.

        `text` is a part of the name, in upper or lower case; `tag` one of its deliveries' tags.
        """
        start, limit = checks.checked_start("after", after), checks.checked_limit(limit)
        return await listed(self._store.schedules, checked_filter(wanted), start, limit)

    async def pause(self, name: str, reason: str | None = None) -> Schedule:
        """Create no deliveries until it is resumed; attempts in progress continue.

        A paused schedule stays as it is.
        """
        reason = None if reason is None else checks.checked_text("reason", reason, 1000)

        return await self._changed(
            name,
            lambda was, now, unclaimed: revisions.pause(was, reason, now, untouched=unclaimed.next),
            reason=reason,
        )

    async def resume(self, name: str, *, from_pause: bool = False) -> Schedule:
        """Continue from now, or with occurrences missed since the pause, by its catch-up rule.

        A schedule that is not paused stays as it is.
        """
        new_id = self._chance.delivery_id
        return await self._changed(
            name,
            lambda was, now, _: revisions.resume(was, now, new_id, from_pause=from_pause),
            from_pause=from_pause,
        )

    async def remove(
        self, name: str, *, version: int | None = None, connection: Any = None
    ) -> Schedule:
        """Remove it: pending deliveries are cancelled, attempts in progress continue."""

        def decide(was: StoredSchedule, _: datetime, unclaimed: Unclaimed) -> Revision:
            _check_version(was, name, version)
            return revisions.remove(was, untouched=unclaimed.next)

        return await self._changed(name, decide, connection)

    async def trigger(self, name: str, *, id: str | None = None) -> str:
        """Create one delivery now, paused or not, and return its id; the plan does not change.

        With an `id`, a repeated call creates nothing more.
        """
        schedule = await self._stored(name)
        id = self._chance.delivery_id() if id is None else checks.checked_id(id)
        now, _ = await self._store.plans.clock()
        run = extra_run(schedule, id, Occurrence(f"triggered {id}", now), now)
        await self._store.schedules.add_runs(schedule, [run], self.actor)
        self._store.wakeups.hint()
        return id

    async def _stored(self, name: str) -> StoredSchedule:
        return await self._store.schedules.get(checks.checked_text("name", name))

    async def _changed(
        self,
        name: str,
        decide: Callable[[StoredSchedule, datetime, Unclaimed], Revision | None],
        connection: Any = None,
        **detail: Any,
    ) -> Schedule:
        """Change a schedule that exists; NotFound if it does not."""

        def decide_known(was: StoredSchedule | None, now: datetime, unclaimed: Unclaimed) -> Any:
            if was is None:
                raise no_schedule(name)
            return decide(was, now, unclaimed)

        return record_of(
            (await self._revised(name, decide_known, connection, **detail))[0], Schedule
        )

    async def _revised(
        self,
        name: str,
        decide: Callable[[StoredSchedule | None, datetime, Unclaimed], Revision | None],
        connection: Any = None,
        origin: DecideOrigin | None = None,
        calendars: Sequence[StoredCalendar] = (),
        **detail: Any,
    ) -> tuple[StoredSchedule, Revision | None]:
        transaction = None if connection is None else await transaction_of(connection)
        schedule, revision = await self._store.schedules.revise(
            checks.checked_text("name", name),
            decide,
            self.actor,
            detail or None,
            transaction,
            origin=origin,
            calendars=calendars,
        )
        assert schedule is not None
        if transaction is not None:
            return schedule, revision
        now = self._clock.now()
        if revision is not None and any(each.due_at <= now for each in _made(revision)):
            self._store.wakeups.hint()
        return schedule, revision


def _by_name(target: Target) -> tuple[str, str | None]:
    return checks.checked_handler("target", target), None


def _made(revision: Revision) -> Sequence[Planned]:
    return [*revision.plan.make, *revision.plan.move]


def _check_version(schedule: StoredSchedule | None, name: str, version: int | None) -> None:
    present = None if schedule is None else schedule.version
    if version is not None and version != (present or NOT_YET):
        raise Outdated("schedule", name, present, version)


def _target(contents: Contents) -> Target:
    """The target as a declaration takes it."""
    if contents.address is not None:
        return decode_webhook(contents.address)
    name = endpoint_name(contents.target)
    return contents.target if name is None else endpoint(name)
