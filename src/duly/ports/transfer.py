"""What is asked of the store by those who move its contents to another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from duly.domain.endpoints.endpoint import StoredEndpoint
from duly.domain.transfer.entries import DeliveryEntry, ScheduleEntry, StreamEntry
from duly.errors import Conflict


class ImportResult(StrEnum):
    """What becomes of something that is imported."""

    NEW = "new"
    KNOWN = "known"
    """It is there already, and stays as it is."""


class ExportSnapshot(Protocol):
    """All that a namespace has, as it stood at one moment; read in pages, so memory is bounded."""

    async def moment(self) -> datetime:
        """Which moment that is, by the store's clock; asked first, it is this one."""

    def endpoints(self) -> AsyncIterator[StoredEndpoint]:
        """Endpoints by name."""

    def streams(self) -> AsyncIterator[StreamEntry]:
        """Streams of which somebody said something, by name."""

    def schedules(self) -> AsyncIterator[ScheduleEntry]:
        """Schedules by name; UnreadableRule when a newer version wrote one."""

    def deliveries(self, *, everything: bool) -> AsyncIterator[DeliveryEntry]:
        """What is not over, or everything: first those in line, each stream's in their order."""


class Transfer(Protocol):
    """Reading a namespace as a whole, and writing what was read elsewhere."""

    @property
    def schema(self) -> int:
        """The number of the schema's last step."""

    def snapshot(self) -> AbstractAsyncContextManager[ExportSnapshot]:
        """All that there is at one moment, while others go on writing."""

    async def scheduled(self, names: Collection[str]) -> set[str]:
        """Those of the names that are schedules."""

    async def sort_out(self, entries: Sequence[DeliveryEntry]) -> list[ImportResult | Conflict]:
        """What `deliver` would do with each; nothing is written."""

    async def deliver(
        self, entries: Sequence[DeliveryEntry], *, skip: bool
    ) -> list[ImportResult | Conflict]:
        """Put deliveries on the books as they are; safe to repeat, atomic.

        They are given in the order of their streams. Unless `skip` says that what conflicts is
        passed over, one of those keeps all others out too.
        """

    async def note(self, actor: str, action: str, subject: str, detail: Mapping[str, Any]) -> None:
        """Write an entry in the audit trail."""
