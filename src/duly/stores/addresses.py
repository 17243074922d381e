"""Seals the stored addresses of schedules, batches and deliveries again, after a change of keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duly.domain.endpoints.sealed_addresses import HEADERS, SealedAddresses
from duly.domain.endpoints.webhooks import decode_webhook
from duly.errors import DulyError
from duly.ports import ResealedAddresses
from duly.stores.access.audit import note
from duly.stores.database import Database, NamedRow
from duly.stores.deliveries.maintenance import BEGINNING

SLICE = 1000


class Addresses:
    """The addresses with headers in one namespace."""

    def __init__(self, database: Database, namespace: str, addresses: SealedAddresses) -> None:
        self._database = database
        self._namespace = namespace
        self._addresses = addresses

    async def reseal(self, actor: str) -> ResealedAddresses:
        """Seal all headers with the first key, slice by slice; safe to stop and repeat."""
        # Schedules first: their next deliveries copy the address.
        done, number, after = ResealedAddresses(0, 0, {}), 0, BEGINNING
        while found := await self._read("schedules", after=number, batch=SLICE):
            done.schedules += await self._write("schedules", found, actor, done.failed)
            number = found[-1]["id"]
        # Completions of batches next: they become deliveries.
        while found := await self._read("batches", after=after, batch=SLICE):
            done.deliveries += await self._write("batches", found, actor, done.failed)
            after = found[-1]["id"]
        after = BEGINNING
        while (until := await self._end_of_slice(after)) is not None:
            found = await self._read("deliveries", after=after, until=until)
            done.deliveries += await self._write("deliveries", found, actor, done.failed)
            after = until
        return done

    async def _end_of_slice(self, after: str) -> str | None:
        rows = await self._database.fetch_named("maintenance.slice", after=after, batch=SLICE)
        id: str | None = rows[0]["id"]
        return id

    async def _read(self, kind: str, **slice: Any) -> Sequence[NamedRow]:
        return await self._database.fetch_named(
            f"addresses.{kind}", namespace=self._namespace, mark=HEADERS, **slice
        )

    async def _write(
        self, kind: str, found: Sequence[NamedRow], actor: str, failed: dict[str, str]
    ) -> int:
        """Write changed addresses; those that cannot be opened are not changed and in `failed`."""
        changes = []
        for row in found:
            try:
                address = self._addresses.resealed(row["address"])
            except DulyError as error:
                failed[decode_webhook(row["address"]).origin] = str(error)
                continue
            if address != row["address"]:
                changes.append({"id": row["id"], "before": row["address"], "address": address})
        if not changes:
            return 0
        columns = {name: [each[name] for each in changes] for name in changes[0]}
        async with self._database.together() as session:
            written = await session.fetch_batch(f"addresses.{kind}_resealed", columns=columns)
            detail = {kind: len(written)}
            await note(session, self._namespace, actor, "store.resealed", self._namespace, detail)
        return len(written)
