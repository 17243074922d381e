"""Imports an export into another store, or again into the same one.

It may be killed at any point and repeated: everything keeps its name or id, what exists already is
skipped, and a batch is written as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from duly.domain.endpoints.endpoint import Sealed, StoredEndpoint
from duly.domain.endpoints.sealed_headers import sealed_headers
from duly.domain.schedules.calendars import StoredCalendar
from duly.domain.schedules.revisions import Revision
from duly.domain.streams import operations
from duly.domain.streams.operations import Intervention
from duly.domain.streams.stream import StreamRow
from duly.domain.time.rules import calendar_of
from duly.domain.transfer import import_checks
from duly.domain.transfer.entries import (
    KINDS,
    CalendarEntry,
    DeliveryEntry,
    EndpointEntry,
    PolicyEntry,
    ScheduleEntry,
    StreamEntry,
    Thing,
    name_of,
)
from duly.domain.transfer.reader import Batch, Reading, Survey, Tell
from duly.errors import Conflict, NotFound
from duly.ports import ImportResult, Store
from duly.records.endpoint import EndpointState
from duly.services.interruption import ended
from duly.services.schedules.calendars import Timings, with_calendars


class Vault(Protocol):
    """Seals secrets before they are stored."""

    def seal(self, secret: str, context: str, until: datetime | None = None) -> Sealed: ...


class Imported(msgspec.Struct, frozen=True):
    """The result for a batch of one kind."""

    kind: str
    new: int
    known: int
    refused: int


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an import."""

    dry_run: bool = False
    """Write nothing; only return what would be written."""
    skip_bad: bool = False
    """Skip what cannot be imported, instead of stopping there."""
    beside_workers: bool = False
    """Import even while workers run on the store."""


class Importing:
    """Imports into the namespace of one app; `actor` is named in the audit trail."""

    def __init__(
        self, store: Store, vault: Vault, payload_limit: int, actor: str = "python"
    ) -> None:
        self._store = store
        self._vault = vault
        self._payload_limit = payload_limit
        self.actor = actor

    def survey(self, lines: Iterable[bytes], options: ImportOptions, on_bad: Tell) -> Survey:
        """Read an export to its end and check every line; nothing is written.

        InvalidInput if it is not an export, incomplete or of a newer version, and at the first
        bad line; with `skip_bad`, `on_bad` is called with each bad line instead.
        """
        return Reading(lines, self._payload_limit, on_bad if options.skip_bad else None).survey()

    async def write(
        self, lines: Iterable[bytes], survey: Survey, options: ImportOptions, on_bad: Tell
    ) -> AsyncIterator[Imported]:
        """Write what was surveyed, batch by batch, from the same lines.

        Conflict if workers run on the store, unless `beside_workers`, and if a key or id exists
        with other content; with `skip_bad`, `on_bad` is called with that line instead.
        """
        if not options.dry_run:
            await self._begin(survey, options)
        on_bad_line = _ignore if options.skip_bad else None
        for batch in Reading(lines, self._payload_limit, on_bad_line, survey).batches():
            counts, cancelled = await ended(self._write_batch(batch, options, on_bad))
            yield counts
            if cancelled is not None:
                raise cancelled
        if not options.dry_run:
            self._store.wakeups.hint()

    async def _begin(self, survey: Survey, options: ImportOptions) -> None:
        if not options.beside_workers:
            await self._refuse_beside_workers()
        heading = survey.heading
        detail: dict[str, Any] = {
            "exported_at": heading.exported_at,
            "namespace": heading.namespace,
            **survey.counts,
        }
        await self._store.transfer.note(self.actor, "store.imported", self._store.namespace, detail)

    async def _refuse_beside_workers(self) -> None:
        alive = [each for each in await self._store.workers.all() if each.alive]
        if alive:
            raise Conflict(
                f"worker {alive[0].id} ({alive[0].name}) uses this store; stop it first, or give "
                "--beside-workers if nothing else adds to the streams of the file meanwhile"
            )

    async def _write_batch(self, batch: Batch, options: ImportOptions, on_bad: Tell) -> Imported:
        answers = await self._answers([thing for _, thing in batch], options)
        refused = 0
        for (number, _), answer in zip(batch, answers, strict=True):
            if isinstance(answer, Conflict):
                if not options.skip_bad:
                    raise Conflict(f"line {number}: {answer}") from answer
                on_bad(number, str(answer))
                refused += 1
        new = sum(answer is ImportResult.NEW for answer in answers)
        return Imported(KINDS[type(batch[0][1])], new, len(batch) - new - refused, refused)

    async def _answers(
        self, things: Sequence[Thing], options: ImportOptions
    ) -> Sequence[ImportResult | Conflict]:
        deliveries = [each for each in things if isinstance(each, DeliveryEntry)]
        if deliveries and options.dry_run:
            return await self._store.transfer.compare(deliveries)
        if deliveries:
            return await self._store.transfer.deliver(deliveries, skip=options.skip_bad)
        known = await self._known(things)
        new = {name_of(each): each for each in things if name_of(each) not in known}
        # In a dry run the calendars of the file are not there yet.
        refused = {} if options.dry_run else await self._refused(new.values())
        kept = [each for name, each in new.items() if name not in refused]
        if kept and not options.dry_run and (options.skip_bad or not refused):
            await self._create(kept)
        return [
            refused.get(name) or (ImportResult.KNOWN if name in known else ImportResult.NEW)
            for name in map(name_of, things)
        ]

    async def _refused(self, things: Iterable[Thing]) -> dict[str, Conflict]:
        """The schedules, by name, whose calendar is neither in the file nor in the store."""
        named = {
            each.name: calendar
            for each in things
            if isinstance(each, ScheduleEntry) and (calendar := calendar_of(each.rule)) is not None
        }
        missing = {each for each in {*named.values()} if not await self._is_calendar(each)}
        return {
            name: Conflict(f"schedule {name!r} needs the calendar {calendar!r}; set it first")
            for name, calendar in named.items()
            if calendar in missing
        }

    async def _known(self, things: Sequence[Thing]) -> set[str]:
        names = [name_of(each) for each in things]
        if isinstance(things[0], EndpointEntry):
            return {each.name for each in await self._store.endpoints.some(names)}
        if isinstance(things[0], ScheduleEntry):
            return await self._store.transfer.scheduled(names)
        if isinstance(things[0], PolicyEntry):
            stored = await self._store.recovery.policies()
            return {f"{each.reason} {each.target or ''}" for each in stored}
        exists = self._is_calendar if isinstance(things[0], CalendarEntry) else self._is_stream
        return {name for name in names if await exists(name)}

    async def _is_calendar(self, name: str) -> bool:
        try:
            await self._store.calendars.get(name)
        except NotFound:
            return False
        return True

    async def _is_stream(self, name: str) -> bool:
        try:
            await self._store.streams.get(name, 0)
        except NotFound:
            return False
        return True

    async def _create(self, things: Sequence[Thing]) -> None:
        schedules = [each for each in things if isinstance(each, ScheduleEntry)]
        if schedules:
            await self._schedule(schedules)
        for each in things:
            if isinstance(each, EndpointEntry):
                await self._add(each)
            elif isinstance(each, PolicyEntry):
                policy = import_checks.policy_of(each)
                await self._store.recovery.set_policy(policy, self.actor)
            elif isinstance(each, StreamEntry):
                await self._configure(each)
            elif isinstance(each, CalendarEntry):
                await self._set(each)

    async def _schedule(self, entries: Sequence[ScheduleEntry]) -> None:
        new = [
            (each.name, import_checks.revision_of(each, self._payload_limit)) for each in entries
        ]

        async def create(timings: Timings, calendars: Sequence[StoredCalendar]) -> None:
            known = [
                (name, msgspec.structs.replace(revision, timing=timing))
                for (name, revision), timing in zip(new, timings, strict=True)
            ]

            def decide(now: datetime) -> list[tuple[str, Revision]]:  # noqa: ARG001
                return known

            await self._store.schedules.create_all(decide, self.actor, calendars=calendars)

        await with_calendars(self._store, [revision.timing for _, revision in new], create)

    async def _set(self, entry: CalendarEntry) -> None:
        """Create a calendar; nothing uses it yet."""
        await self._store.calendars.set(
            entry.name,
            lambda was: entry.days if was is None else was.days,
            lambda *_: None,
            self.actor,
        )

    async def _configure(self, entry: StreamEntry) -> None:
        def decide(stream: StreamRow, now: datetime) -> Intervention:  # noqa: ARG001
            options = {"on_failure": entry.on_failure, "block_for": entry.block_for}
            change = operations.configure(stream, options)
            if entry.paused_at is None:
                return change
            return operations.pause(change.line, entry.paused_at, entry.reason)

        await self._store.streams.revise(entry.name, decide, self.actor, "imported", create=True)

    async def _add(self, entry: EndpointEntry) -> None:
        details = import_checks.details_of(entry)
        headers = sealed_headers(details.headers, entry.name, self._vault.seal)
        details = msgspec.structs.replace(details, headers=headers)
        secrets = [self._vault.seal(each.secret, entry.name, each.until) for each in entry.secrets]
        state, reason = entry.state, entry.state_reason
        if entry.missing and state is EndpointState.ACTIVE:
            # Receivers would refuse webhooks that are not signed with its secret.
            state, reason = EndpointState.PAUSED, _missing_secrets(entry)

        def decide(before: StoredEndpoint | None, now: datetime) -> StoredEndpoint:
            return before or StoredEndpoint(
                name=entry.name,
                target=0,
                details=details,
                state=state,
                state_reason=reason,
                state_at=entry.state_at if state is entry.state else now,
                created_at=now,
                version=1,
                secrets=tuple(secrets),
            )

        await self._store.endpoints.revise(entry.name, decide, self.actor, "imported")


def _ignore(number: int, problem: str) -> None:
    """Ignore bad lines that the survey reported already."""


def _missing_secrets(entry: EndpointEntry) -> str:
    return f"imported without {', '.join(entry.missing)}; rotate or edit it, then resume"
