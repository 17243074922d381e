"""Export and import of a namespace: read in one snapshot, written in batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec

from duly.domain.deliveries import retry
from duly.domain.endpoints.endpoint import StoredEndpoint
from duly.domain.endpoints.sealed_addresses import SealedAddresses
from duly.domain.endpoints.webhooks import decode_webhook
from duly.domain.schedules.schedule import decode_occasion
from duly.domain.time.business_days import decode_days
from duly.domain.transfer.entries import (
    CalendarEntry,
    DeliveryEntry,
    Past,
    PolicyEntry,
    ScheduleEntry,
    StreamEntry,
    one_line,
    payload_fields,
    schedule_entry,
)
from duly.domain.turns import keys_of
from duly.errors import Conflict
from duly.failpoints import hit
from duly.ports import ExportSnapshot, ImportResult
from duly.records.retry_plan import RetryPlan
from duly.records.schedule import EVERY_SCHEDULE
from duly.stores.access.audit import note
from duly.stores.database import Database, NamedRow, Session
from duly.stores.deliveries.maintenance import BEGINNING
from duly.stores.deliveries.steps import step_of
from duly.stores.endpoints.endpoints import endpoint_of
from duly.stores.endpoints.targets import Targets
from duly.stores.schedules.rows import schedule_of
from duly.stores.statements import migrations
from duly.stores.streams.heads import now
from duly.stores.transfer.imported_deliveries import sorted_out, write

NAMES, SLICE = 500, 200
"""The number of rows read at once; payloads may be large."""
Found = TypeVar("Found", StoredEndpoint, StreamEntry, PolicyEntry, CalendarEntry, ScheduleEntry)
ReadPage = Callable[..., Awaitable[Sequence[NamedRow]]]
"""Reads the rows whose names come after `after`."""


class Transfer:
    """Exports and imports one namespace."""

    def __init__(
        self, database: Database, namespace: str, targets: Targets, addresses: SealedAddresses
    ) -> None:
        self._database = database
        self._namespace = namespace
        self._targets = targets
        self._addresses = addresses

    @property
    def schema(self) -> int:
        """The number of the schema's last migration, the same in both dialects."""
        return migrations("sqlite")[-1].number

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[ExportSnapshot]:
        """The namespace at one moment, unaffected by concurrent writes."""
        async with self._database.snapshot() as session:
            yield SnapshotShelves(session, self._namespace, self._addresses)

    async def scheduled(self, names: Collection[str]) -> set[str]:
        """The names among these that are schedules."""
        rows = await self._database.fetch_named(
            "transfer.schedules", namespace=self._namespace, names=list(names)
        )
        return {row["name"] for row in rows}

    async def compare(self, entries: Sequence[DeliveryEntry]) -> list[ImportResult | Conflict]:
        """What `deliver` would do with each entry; nothing is written."""
        numbers = await self._targets.numbers({each.target for each in entries}, create=False)
        return await sorted_out(self._database, self._namespace, entries, numbers, self._addresses)

    async def deliver(
        self, entries: Sequence[DeliveryEntry], *, skip: bool
    ) -> list[ImportResult | Conflict]:
        """Write imported deliveries; atomic, and safe to repeat."""
        await hit("import.before")
        # The "plan" channel's query plans suit a growing ledger; an import may start with an empty
        # one.
        async with self._database.together("plan") as session:
            names = {each.target for each in entries}
            numbers = await self._targets.numbers_within(session, names)
            answers = await sorted_out(session, self._namespace, entries, numbers, self._addresses)
            if skip or not any(isinstance(each, Conflict) for each in answers):
                pairs = zip(entries, answers, strict=True)
                new = [entry for entry, answer in pairs if answer is ImportResult.NEW]
                await write(session, self._namespace, new, numbers, self._addresses)
                await hit("import.middle")
        await hit("import.after")
        return answers

    async def note(self, actor: str, action: str, subject: str, detail: Mapping[str, Any]) -> None:
        """Write an entry in the audit trail."""
        await note(self._database, self._namespace, actor, action, subject, detail)


class SnapshotShelves:
    """Reads a namespace as of one moment."""

    def __init__(self, session: Session, namespace: str, addresses: SealedAddresses) -> None:
        self._session = session
        self._namespace = namespace
        self._addresses = addresses

    async def moment(self) -> datetime:
        """The time of the snapshot, which both stores take at the first statement."""
        return await now(self._session, self._namespace)

    def endpoints(self) -> AsyncIterator[StoredEndpoint]:
        """Endpoints by name."""
        return self._by_name(self._pages("endpoints.page"), endpoint_of)

    def streams(self) -> AsyncIterator[StreamEntry]:
        """Streams that are paused or have a policy, by name."""
        return self._by_name(
            self._pages("transfer.streams"), lambda row: msgspec.convert(dict(row), StreamEntry)
        )

    def policies(self) -> AsyncIterator[PolicyEntry]:
        """Recovery policies by reason and target."""

        def entry(row: NamedRow) -> PolicyEntry:
            fields = dict(row)
            del fields["name"]
            return msgspec.convert(fields, PolicyEntry)

        return self._by_name(self._pages("transfer.policies"), entry)

    def calendars(self) -> AsyncIterator[CalendarEntry]:
        """Calendars by name."""
        return self._by_name(
            self._pages("calendars.page"),
            lambda row: CalendarEntry(name=row["name"], days=decode_days(row["days"])),
        )

    def schedules(self) -> AsyncIterator[ScheduleEntry]:
        """Schedules by name."""
        every = msgspec.structs.asdict(EVERY_SCHEDULE)
        return self._by_name(partial(self._pages("schedules.page"), **every), self._schedule)

    def _schedule(self, row: NamedRow) -> ScheduleEntry:
        return schedule_entry(schedule_of(row, self._addresses), _plan(row["retry"]))

    async def _by_name(
        self, page: ReadPage, value_of: Callable[[NamedRow], Found]
    ) -> AsyncIterator[Found]:
        rows = await page(after="")
        while rows:
            for row in rows:
                yield value_of(row)
            rows = await page(after=rows[-1]["name"])

    def _pages(self, statement: str) -> ReadPage:
        return partial(self._session.fetch_named, statement, namespace=self._namespace, limit=NAMES)

    async def deliveries(self, *, everything: bool) -> AsyncIterator[DeliveryEntry]:
        """Unfinished deliveries, or all: first those in streams, each stream's in order."""
        filters = {"namespace": self._namespace, "everything": everything}
        lane, position = None, 0
        while place := await self._session.fetch_named(
            "transfer.slice", lane=lane, position=position, batch=SLICE
        ):
            until = {f"until_{name}": value for name, value in place[0].items()}
            since = {"lane": lane, "position": position}
            async for each in self._entries("transfer.in_line", **since, **until, **filters):
                yield each
            lane, position = until.values()
        after: str | None = BEGINNING
        while after is not None:
            rows = await self._session.fetch_named("maintenance.slice", after=after, batch=SLICE)
            ids = {"after": after, "until": rows[0]["id"]}
            after = ids["until"]
            if after is not None:
                async for each in self._entries("transfer.apart", **ids, **filters):
                    yield each

    async def _entries(self, statement: str, **parameters: Any) -> AsyncIterator[DeliveryEntry]:
        rows = await self._session.fetch_named(statement, **parameters)
        ids = [row["id"] for row in rows]
        steps, history = (
            await self._by_delivery("steps", ids),
            await self._by_delivery("history", ids),
        )
        for row in rows:
            yield DeliveryEntry(
                **_facts(row, self._addresses),
                steps=tuple(step_of(**each) for each in steps[row["id"]]),
                history=tuple(_past(each) for each in history[row["id"]]),
            )

    async def _by_delivery(self, what: str, ids: list[str]) -> dict[str, list[dict[str, Any]]]:
        rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in await self._session.fetch_named(f"transfer.{what}", ids=ids) if ids else ():
            facts = dict(row)
            rows[facts.pop("delivery")].append(facts)
        return rows


def _facts(row: NamedRow, addresses: SealedAddresses) -> dict[str, Any]:
    facts = dict(row)
    address, occasion = addresses.readable(facts.pop("address")), facts.pop("occasion")
    content, blocks = payload_fields(bytes(facts.pop("payload"))), facts.pop("blocked_at")
    fair_key, limit_key = keys_of(facts.pop("turn"))
    return (
        facts
        | content
        | {
            "blocks": blocks,
            "fair_key": fair_key,
            "limit_key": limit_key,
            "webhook": None if address is None else decode_webhook(address),
            "occasion": None if occasion is None else decode_occasion(occasion),
            "tags": tuple(msgspec.json.decode(row["tags"])) if row["tags"] else (),
            "retry": _plan(row["retry"]),
            "in_line": bool(row["in_line"]),
            "crashes": row["crashes"] or 0,
        }
    )


def _plan(stored: str | None) -> RetryPlan | None:
    return None if stored is None else retry.decode(stored)


def _past(row: Mapping[str, Any]) -> Past:
    return Past(**dict(row) | {"answer": one_line(row["answer"])})
