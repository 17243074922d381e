"""The store's interface for monitoring: status, rollups, traces and alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from duly.domain.monitoring.alerts import AlertCause
from duly.domain.monitoring.distributions import Times
from duly.domain.monitoring.outages import Delays, Stop, Work
from duly.domain.monitoring.part_counts import Part, PartKind
from duly.domain.monitoring.rollups import Span, Tally
from duly.records.alert import Alert
from duly.records.stats import Counts
from duly.records.status import NamespaceStatus


class StatusReader(Protocol):
    """The status; each count reads a bounded number of rows through an index."""

    async def look(self, grace: timedelta) -> NamespaceStatus:
        """The status by the store's clock."""

    async def behind(self) -> int:
        """The number of deliveries waiting in streams, without heads of streams that can run."""


class Rollups(Protocol):
    """Counts by minute, written by each worker."""

    async def add(self, worker: int, tally: Tally) -> None:
        """Add to the worker's present minute; not idempotent if the answer is lost."""

    async def series(self, span: Span) -> dict[datetime, Counts]:
        """The counts of each step by its start; empty steps are left out."""

    async def times(self, span: Span) -> dict[datetime, Times]:
        """The distributions of each step by its start; steps without any are left out."""

    async def add_parts(self, worker: int, counts: Mapping[Part, Counts]) -> None:
        """Add to the worker's counts of targets and schedules; not idempotent either."""

    async def part_series(self, kind: PartKind, name: str, span: Span) -> dict[datetime, Counts]:
        """The counts of one target or schedule, of each step by its start."""


class Outages(Protocol):
    """What the ledger knows of outages; each statement reads a limited number of rows."""

    async def work(
        self, horizon: datetime, seen_at: datetime, least: timedelta, most: int
    ) -> tuple[Work, bool]:
        """When attempts ran and deliveries waited, and whether there are more than `most`."""

    async def delays(self, stops: Sequence[Stop], seen_at: datetime, most: int) -> list[Delays]:
        """How late the deliveries of each outage were."""


class Traces(Protocol):
    """The parent spans of deliveries."""

    async def keep(self, delivery: str, parent: str) -> None:
        """Store the span in which the delivery was accepted."""

    async def parent(self, delivery: str) -> str | None:
        """The span in which the delivery was accepted, if known."""


class Alerts(Protocol):
    """Active and cleared alerts."""

    async def raised(self) -> list[Alert]:
        """The active alerts."""

    async def page(self, before: int | None, limit: int) -> list[Alert]:
        """A page of all alerts, newest first; `before` is the last id of the previous page."""

    async def raise_one(self, trouble: AlertCause) -> bool:
        """Raise an alert; False if it is already active."""

    async def see(self, trouble: AlertCause) -> None:
        """Mark the alert as still active."""

    async def clear(self, alert: Alert) -> bool:
        """Clear an alert; False if another process did."""

    async def unreported(self, limit: int) -> list[Alert]:
        """Alerts whose raising or clearing was not yet passed to the alert webhook."""

    async def mark_reported(self, alert: Alert, reported: str) -> None:
        """Record which changes were passed to the alert webhook."""

    async def died(self, since: datetime) -> int:
        """The number of alert notifications that became dead letters since a moment."""
