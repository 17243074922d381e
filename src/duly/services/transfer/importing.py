"""Importing: what an export tells, written down in another store, or again in the same one.

It may be killed anywhere and begun again: everything keeps its name or id, what is there already
is passed over, and a batch is on the books as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from duly.domain.endpoints.endpoint import Sealed, StoredEndpoint
from duly.domain.endpoints.sealed_headers import sealed_headers
from duly.domain.schedules.revisions import Revision
from duly.domain.streams import operations
from duly.domain.streams.operations import Intervention
from duly.domain.streams.stream import StreamRow
from duly.domain.transfer import import_checks
from duly.domain.transfer.entries import (
    KINDS,
    DeliveryEntry,
    EndpointEntry,
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


class Vault(Protocol):
    """What seals secrets before they are stored."""

    def seal(self, secret: str, context: str, until: datetime | None = None) -> Sealed: ...


class Brought(msgspec.Struct, frozen=True):
    """What became of some things of one kind."""

    kind: str
    new: int
    known: int
    refused: int


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an import is made."""

    dry_run: bool = False
    """Nothing is written; it is said what would be."""
    skip_bad: bool = False
    """What cannot be taken is passed over; otherwise it ends there."""
    beside_workers: bool = False
    """Others may be at work on the store."""


class Importing:
    """What comes into one app's namespace; `actor` is who the audit trail says it was."""

    def __init__(
        self, store: Store, vault: Vault, payload_limit: int, actor: str = "python"
    ) -> None:
        self._store = store
        self._vault = vault
        self._payload_limit = payload_limit
        self.actor = actor

    def survey(self, lines: Iterable[bytes], manner: ImportOptions, tell: Tell) -> Survey:
        """Read an export to its end and check every line; nothing is written.

        InvalidInput when it is none, of a newer version or cut off, and at the first bad line
        unless those are skipped: `tell` hears of them then.
        """
        return Reading(lines, self._payload_limit, tell if manner.skip_bad else None).survey()

    async def bring_in(
        self, lines: Iterable[bytes], survey: Survey, manner: ImportOptions, tell: Tell
    ) -> AsyncIterator[Brought]:
        """Write down what was surveyed, batch by batch, from the same lines.

        Conflict while workers are at work here, unless that is wanted; and when something else is
        there under a key or an id, unless that is skipped: `tell` hears of it then.
        """
        if not manner.dry_run:
            await self._begin(survey, manner)
        heard = _unheard if manner.skip_bad else None
        for batch in Reading(lines, self._payload_limit, heard, survey).batches():
            brought, cancelled = await ended(self._brought(batch, manner, tell))
            yield brought
            if cancelled is not None:
                raise cancelled
        if not manner.dry_run:
            self._store.wakeups.hint()

    async def _begin(self, survey: Survey, manner: ImportOptions) -> None:
        if not manner.beside_workers:
            await self._refuse_beside_workers()
        heading = survey.heading
        detail: dict[str, Any] = {
            "exported_at": heading.exported_at,
            "namespace": heading.namespace,
            **survey.counts,
        }
        await self._store.transfer.note(self.actor, "store.imported", self._store.namespace, detail)

    async def _refuse_beside_workers(self) -> None:
        alive = [each for each in await self._store.workers.roster() if each.alive]
        if alive:
            raise Conflict(
                f"worker {alive[0].id} ({alive[0].name}) is at work on this store; stop it first, "
                "or give --beside-workers if nobody adds to the streams of the file meanwhile"
            )

    async def _brought(self, batch: Batch, manner: ImportOptions, tell: Tell) -> Brought:
        answers = await self._answers([thing for _, thing in batch], manner)
        refused = 0
        for (number, _), answer in zip(batch, answers, strict=True):
            if isinstance(answer, Conflict):
                if not manner.skip_bad:
                    raise Conflict(f"line {number}: {answer}") from answer
                tell(number, str(answer))
                refused += 1
        new = sum(answer is ImportResult.NEW for answer in answers)
        return Brought(KINDS[type(batch[0][1])], new, len(batch) - new - refused, refused)

    async def _answers(
        self, things: Sequence[Thing], manner: ImportOptions
    ) -> Sequence[ImportResult | Conflict]:
        """What becomes of each; all are of one kind."""
        deliveries = [each for each in things if isinstance(each, DeliveryEntry)]
        if deliveries and manner.dry_run:
            return await self._store.transfer.sort_out(deliveries)
        if deliveries:
            return await self._store.transfer.deliver(deliveries, skip=manner.skip_bad)
        known = await self._known(things)
        new = {name_of(each): each for each in things if name_of(each) not in known}
        if new and not manner.dry_run:
            await self._create(list(new.values()))
        return [
            ImportResult.KNOWN if name_of(each) in known else ImportResult.NEW for each in things
        ]

    async def _known(self, things: Sequence[Thing]) -> set[str]:
        names = [name_of(each) for each in things]
        if isinstance(things[0], EndpointEntry):
            return {each.name for each in await self._store.endpoints.some(names)}
        if isinstance(things[0], ScheduleEntry):
            return await self._store.transfer.scheduled(names)
        return {name for name in names if await self._is_stream(name)}

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
            elif isinstance(each, StreamEntry):
                await self._configure(each)

    async def _schedule(self, entries: Sequence[ScheduleEntry]) -> None:
        new = [
            (each.name, import_checks.revision_of(each, self._payload_limit)) for each in entries
        ]

        def decide(now: datetime) -> list[tuple[str, Revision]]:  # noqa: ARG001
            return new

        await self._store.schedules.create_all(decide, self.actor)

    async def _configure(self, entry: StreamEntry) -> None:
        def decide(line: StreamRow, now: datetime) -> Intervention:  # noqa: ARG001
            change = operations.configure(line, entry.on_failure)
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
            # Without its secret nobody there would believe what is sent.
            state, reason = EndpointState.PAUSED, _lacking(entry)

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


def _unheard(number: int, problem: str) -> None:
    """What was told when it was surveyed."""


def _lacking(entry: EndpointEntry) -> str:
    return f"imported without {', '.join(entry.missing)}; rotate or edit it, then resume"
