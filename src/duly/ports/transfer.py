"""The store's interface for export and import."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from duly.domain.endpoints.endpoint import StoredEndpoint
from duly.domain.transfer.entries import (
    CalendarEntry,
    DeliveryEntry,
    PolicyEntry,
    ScheduleEntry,
    StreamEntry,
)
from duly.errors import Conflict


class ImportResult(StrEnum):
    """The result of importing one entry."""

    NEW = "new"
    KNOWN = "known"
    """It already exists, and is not changed."""


class ExportSnapshot(Protocol):
    """The contents of a namespace at one moment, read in pages to bound memory."""

    async def moment(self) -> datetime:
        """The moment of the snapshot, by the store's clock; the first call fixes it."""

    def endpoints(self) -> AsyncIterator[StoredEndpoint]:
        """Endpoints, sorted by name."""

    def streams(self) -> AsyncIterator[StreamEntry]:
        """Streams with a policy or a pause, sorted by name."""

    def policies(self) -> AsyncIterator[PolicyEntry]:
        """Recovery policies, sorted by reason and target."""

    def calendars(self) -> AsyncIterator[CalendarEntry]:
        """Calendars, sorted by name."""

    def schedules(self) -> AsyncIterator[ScheduleEntry]:
        """Schedules, sorted by name; UnreadableRule if a newer version wrote one."""

    def deliveries(self, *, everything: bool) -> AsyncIterator[DeliveryEntry]:
        """Unfinished deliveries, or all; first those in queues, in the order of their streams."""


class Transfer(Protocol):
    """Reads a whole namespace, and writes entries of an export."""

    @property
    def schema(self) -> int:
        """The number of the last schema migration."""

    def snapshot(self) -> AbstractAsyncContextManager[ExportSnapshot]:
        """A snapshot of the namespace, which does not block writers."""

    async def scheduled(self, names: Collection[str]) -> set[str]:
        """The names among these that are schedules."""

    async def compare(self, entries: Sequence[DeliveryEntry]) -> list[ImportResult | Conflict]:
        """The result that `deliver` would have for each; nothing is written."""

    async def deliver(
        self, entries: Sequence[DeliveryEntry], *, skip: bool
    ) -> list[ImportResult | Conflict]:
        """Store deliveries with all their fields; atomic, and safe to repeat.

        They are given in the order of their streams. With `skip`, conflicting entries are skipped;
        without it, one conflict keeps all of them from being stored.
        """

    async def note(self, actor: str, action: str, subject: str, detail: Mapping[str, Any]) -> None:
        """Write an audit entry."""
