"""The store's interface for batches."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

import msgspec

from duly.domain.batches import MemberCounts, MemberSlice
from duly.domain.deliveries.delivery import PreparedDelivery
from duly.errors import Conflict, NotFound
from duly.records.batch import Batch, BatchState

Refusal = Conflict | NotFound
"""Why a delivery was not stored."""


class UnfinishedBatch(msgspec.Struct, frozen=True):
    """A batch that is not finished; `counted_ago` is the age of its stored counts, in seconds."""

    id: str
    namespace: str
    is_closed: bool
    is_cancelled: bool
    counted_ago: float | None


class Finish(StrEnum):
    """What came of the try to finish a batch."""

    DONE = "done"
    UNSENT = "unsent"
    """It is finished, and its completion was not sent: the batch says why."""
    CHANGED = "changed"
    """A dead letter was retried or discarded since it was counted."""
    NOT_NOW = "not_now"
    """Another process has it locked, or has finished it."""


class Batches(Protocol):
    """Deliveries whose common end is announced by one more delivery."""

    async def open(
        self, id: str, name: str | None, completion: PreparedDelivery, actor: str | None
    ) -> Batch:
        """Open a batch; safe to repeat with the same id."""

    async def get(self, id: str) -> Batch:
        """One batch, or NotFound."""

    async def page(self, state: BatchState | None, before: str | None, limit: int) -> list[Batch]:
        """A page of batches, newest first; `before` is the last id of the page before."""

    async def close(self, id: str, actor: str | None) -> Batch:
        """Take no more members; waits for transactions that add one. No change if it is closed."""

    async def cancel(self, id: str, actor: str | None) -> Batch:
        """Close it, and send no completion; Conflict if it is finished.

        Its members are not changed.
        """

    async def unfinished(self, after: tuple[str, str], limit: int) -> Sequence[UnfinishedBatch]:
        """Batches of the served namespaces, after a namespace and an id."""

    async def survey(self, id: str, after: str | None, limit: int) -> MemberSlice:
        """Count at most `limit` members by state, those that follow `after` by their ids."""

    async def cancel_waiting(
        self, id: str, after: str | None, limit: int
    ) -> tuple[int, str | None]:
        """Cancel waiting members among the next `limit` that have not ended and follow `after`.

        Returns how many, and the id to continue from, None at the end.
        """

    async def keep_counts(self, id: str, counts: MemberCounts) -> None:
        """Store what was counted, unless it is finished or a transaction adds a member now."""

    async def finish(self, id: str, counts: MemberCounts, completion_id: str) -> Finish:
        """Mark a closed batch as finished, and store its completion, in one transaction.

        `counts` has all members, none of them pending. Exactly one of all calls sends it.
        """

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Remove finished batches without members; returns how many."""
