"""Alerts: one row each from when it is raised until it is cleared, for all workers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from duly.domain.monitoring.alerts import KEY, AlertCause
from duly.records.alert import Alert, AlertKind
from duly.stores.database import Database, NamedRow

NEWEST = 2**62
NEWS_FOR = timedelta(hours=1)
"""An alert that was never reported is still reported this long after it was cleared."""
LOOKED_AT = 100


class Alerts:
    """The alerts of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def raised(self) -> list[Alert]:
        """Alerts that are not cleared."""
        return await self._read("raised")

    async def page(self, before: int | None, limit: int) -> list[Alert]:
        """Alerts, newest first, cleared ones included."""
        return await self._read("page", before=NEWEST if before is None else before, limit=limit)

    async def raise_one(self, trouble: AlertCause) -> bool:
        """Raise an alert; False if it is raised already."""
        return bool(await self._write("raise", trouble))

    async def see(self, trouble: AlertCause) -> None:
        """Mark the alert as still active."""
        await self._write("see", trouble)

    async def clear(self, alert: Alert) -> bool:
        """Clear an alert; False if it was cleared already."""
        return bool(await self._database.fetch("alerts.clear", id=alert.id))

    async def unreported(self, limit: int) -> list[Alert]:
        """Alerts whose raising or clearing was not yet reported to the alert webhook."""
        return await self._read("unreported", limit=limit, fresh_for=NEWS_FOR.total_seconds())

    async def mark_reported(self, alert: Alert, reported: str) -> None:
        """Record that the raising of an alert, or also its clearing, was reported."""
        await self._database.fetch("alerts.mark_reported", id=alert.id, reported=reported)

    async def died(self, since: datetime) -> int:
        """How many deliveries that report alerts became dead letters since then."""
        values = {"namespace": self._namespace, "key": KEY, "since_at": since, "most": LOOKED_AT}
        return int((await self._database.fetch("alerts.died", **values))[0][0])

    async def _write(self, statement: str, trouble: AlertCause) -> Sequence[Any]:
        return await self._database.fetch(
            f"alerts.{statement}",
            namespace=self._namespace,
            kind=trouble.kind,
            subject=trouble.subject,
            detail=trouble.detail,
        )

    async def _read(self, statement: str, **parameters: Any) -> list[Alert]:
        rows = await self._database.fetch_named(
            f"alerts.{statement}", namespace=self._namespace, **parameters
        )
        return [_alert(row) for row in rows]


def _alert(row: NamedRow) -> Alert:
    return Alert(**dict(row) | {"kind": AlertKind(row["kind"])})
