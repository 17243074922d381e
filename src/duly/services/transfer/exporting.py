"""Exports a snapshot of a namespace as lines of a file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from datetime import datetime
from typing import Any, Protocol

import msgspec

from duly.domain.deliveries import retry
from duly.domain.endpoints.endpoint import Sealed, StoredEndpoint, still_used
from duly.domain.endpoints.sealed_headers import opened_headers, readable_headers
from duly.domain.transfer import entries
from duly.domain.transfer.entries import (
    KINDS,
    CalendarEntry,
    Ending,
    EndpointEntry,
    Heading,
    PolicyEntry,
    Scope,
    Secret,
    StreamEntry,
    Thing,
)
from duly.errors import Conflict, DulyError
from duly.ports import Clock, ExportSnapshot, Store
from duly.records.target import SEALED_MARK
from duly.version import __version__


class Vault(Protocol):
    """Opens sealed secrets."""

    def open(self, sealed: Sealed, context: str) -> str: ...


class ExportSummary(msgspec.Struct, frozen=True):
    """One line of an export: its kind and name, and the secrets that are left out."""

    line: bytes
    kind: str | None = None
    name: str = ""
    missing: tuple[str, ...] = ()


class Exporting:
    """Exports the namespace of one app; `actor` is named in the audit trail."""

    def __init__(self, store: Store, clock: Clock, vault: Vault, actor: str = "python") -> None:
        self._store = store
        self._clock = clock
        self._vault = vault
        self.actor = actor

    async def lines(
        self, *, everything: bool = False, with_secrets: bool = False
    ) -> AsyncGenerator[ExportSummary, None]:
        """The namespace line by line, with unfinished deliveries or `everything`.

        Secrets of endpoints, and headers that look like credentials, are left out unless
        `with_secrets`. An export with secrets is recorded in the audit trail.
        """
        scope: Scope = "all" if everything else "unfinished"
        if with_secrets:
            await self._note({"secrets": True, "deliveries": scope})
        counts = dict.fromkeys(KINDS.values(), 0)
        async with self._store.transfer.snapshot() as snapshot:
            heading = self._heading(await snapshot.moment(), scope, with_secrets)
            yield ExportSummary(entries.encode(heading))
            async for each in self._things(snapshot, everything, with_secrets):
                counts[KINDS[type(each)]] += 1
                yield _summary(each)
        yield ExportSummary(entries.encode(Ending(counts=counts)))

    async def _note(self, detail: dict[str, Any]) -> None:
        namespace = self._store.namespace
        await self._store.transfer.note(self.actor, "store.exported", namespace, detail)

    def _heading(self, moment: datetime, scope: Scope, with_secrets: bool) -> Heading:
        return Heading(
            version=entries.VERSION,
            duly=__version__,
            schema=self._store.transfer.schema,
            namespace=self._store.namespace,
            exported_at=moment,
            deliveries=scope,
            secrets=with_secrets,
        )

    async def _things(
        self, snapshot: ExportSnapshot, everything: bool, with_secrets: bool
    ) -> AsyncIterator[Thing]:
        async for endpoint in snapshot.endpoints():
            yield self._endpoint(endpoint, with_secrets)
        async for stream in snapshot.streams():
            yield stream
        async for policy in snapshot.policies():
            yield policy
        async for calendar in snapshot.calendars():
            yield calendar
        async for schedule in snapshot.schedules():
            yield _require_open(schedule) if with_secrets else entries.without_credentials(schedule)
        async for delivery in snapshot.deliveries(everything=everything):
            yield _require_open(delivery) if with_secrets else entries.without_credentials(delivery)

    def _endpoint(self, endpoint: StoredEndpoint, with_secrets: bool) -> EndpointEntry:
        details: dict[str, Any] = msgspec.structs.asdict(endpoint.details)
        details["headers"] = self._headers(endpoint, with_secrets)
        if details["retry"] is not None:
            details["retry"] = retry.decode(details["retry"])
        entry = EndpointEntry(
            name=endpoint.name,
            **details,
            state=endpoint.state,
            state_reason=endpoint.state_reason,
            state_at=endpoint.state_at,
        )
        used = still_used(endpoint.secrets, self._clock.now())
        if not with_secrets:
            return entries.without_secrets(entry, bool(used))
        opened = tuple(Secret(self._opened(endpoint, each), each.until) for each in used)
        return msgspec.structs.replace(entry, secrets=opened)

    def _headers(self, endpoint: StoredEndpoint, with_secrets: bool) -> dict[str, str]:
        headers = endpoint.details.headers
        if not with_secrets:
            return readable_headers(headers, endpoint.name, self._vault.open)
        try:
            return opened_headers(headers, endpoint.name, self._vault.open)
        except DulyError as error:
            raise Conflict(f"a header of endpoint {endpoint.name!r}: {error}") from error

    def _opened(self, endpoint: StoredEndpoint, sealed: Sealed) -> str:
        try:
            return self._vault.open(sealed, endpoint.name)
        except DulyError as error:
            raise Conflict(f"the secret of endpoint {endpoint.name!r}: {error}") from error


def _require_open(entry: entries.Sent) -> entries.Sent:
    """The entry itself; Conflict if one of its headers is still sealed."""
    headers = {} if entry.webhook is None else entry.webhook.headers
    for name, value in headers.items():
        if value.startswith(SEALED_MARK):
            raise Conflict(
                f"header {name!r} of {entries.name_of(entry)} cannot be opened with the keys in "
                "DULY_SECRET_KEY; add the key that sealed it"
            )
    return entry


def _summary(thing: Thing) -> ExportSummary:
    missing = () if isinstance(thing, StreamEntry | PolicyEntry | CalendarEntry) else thing.missing
    return ExportSummary(entries.encode(thing), KINDS[type(thing)], entries.name_of(thing), missing)
