"""What is asked of the store by those who watch: how it stands, what happened, what is alarming."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from duly.domain.monitoring.alerts import Alert, AlertCause
from duly.domain.monitoring.rollups import Counts, Span
from duly.domain.monitoring.status import NamespaceStatus


class StatusReader(Protocol):
    """How it stands; each figure reads a bounded number of rows through an index."""

    async def look(self, grace: timedelta) -> NamespaceStatus:
        """How it stands by the store's clock."""

    async def behind(self) -> int:
        """How many wait in streams besides the heads of those that go on."""


class Rollups(Protocol):
    """What happened in each minute, summed up by those who did it."""

    async def add(self, worker: int, tally: Counts) -> None:
        """Add to the worker's present minute. A call whose answer is lost may count twice."""

    async def series(self, span: Span) -> dict[datetime, Counts]:
        """What happened in each step, by its beginning; steps without anything are left out."""


class Traces(Protocol):
    """Where deliveries belong in their callers' traces."""

    async def keep(self, delivery: str, parent: str) -> None:
        """Keep the span under which it was accepted."""

    async def parent(self, delivery: str) -> str | None:
        """The span under which it was accepted, if that is known."""


class Alerts(Protocol):
    """Alerts that are raised, and those that were."""

    async def raised(self) -> list[Alert]:
        """Those that are not cleared."""

    async def page(self, before: int | None, limit: int) -> list[Alert]:
        """All that are kept, newest first; `before` is the last id of the page before."""

    async def raise_one(self, trouble: AlertCause) -> bool:
        """Raise it; False when it is raised already, by whomever."""

    async def see(self, trouble: AlertCause) -> None:
        """Note that it is still the matter."""

    async def clear(self, alert: Alert) -> bool:
        """Clear it; False when another did."""

    async def untold(self, limit: int) -> list[Alert]:
        """Those whose raising or clearing was not handed to the alert webhook yet."""

    async def tell(self, alert: Alert, told: str) -> None:
        """Note how much of it was."""

    async def died(self, since: datetime) -> int:
        """How many of the deliveries that were to tell of alerts died since then."""
