"""The status of a namespace, read by indexes and up to a limit: the cost does not grow with the
ledger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from duly.ports import Clock
from duly.records.status import COUNTED_UP_TO, NamespaceStatus
from duly.stores.database import Database, NamedRow
from duly.stores.monitoring.failure_stats import FailureStatsTable
from duly.stores.schedules.plans import Plans

NAMED_UP_TO = 100


class StatusReader:
    """Reads the status of one namespace."""

    def __init__(
        self,
        database: Database,
        namespace: str,
        clock: Clock,
        figures: FailureStatsTable,
        plans: Plans,
    ) -> None:
        self._database = database
        self._namespace = namespace
        self._clock = clock
        self._figures = figures
        self._plans = plans

    async def look(self, grace: timedelta) -> NamespaceStatus:
        """The status by the store's clock, with the duration of one short query."""
        asked_at = self._clock.monotonic()
        workers = (await self._rows("workers"))[0]
        store_seconds = self._clock.monotonic() - asked_at
        backlog = dict((await self._backlog(grace))[0])
        at = backlog.pop("seen_at")
        failing = await self._figures.failing(at)
        next_at = await self._plans.next_at([])
        lag = timedelta() if next_at is None else max(at - next_at, timedelta())
        return NamespaceStatus(
            at=at,
            store_seconds=store_seconds,
            planner_lag=lag.total_seconds(),
            retries=failing.retries,
            poison=failing.poison,
            blocked_streams=failing.blocked_streams,
            paused_streams=failing.paused_streams,
            **backlog,
            **workers,
            **await self._not_active(),
        )

    async def behind(self) -> int:
        """How many deliveries wait in streams, not counting heads of streams that are running."""
        return int((await self._rows("behind", most=COUNTED_UP_TO))[0]["behind"])

    async def _backlog(self, grace: timedelta) -> Sequence[NamedRow]:
        return await self._database.fetch_named(
            "agenda.backlog",
            "plan",
            namespace=self._namespace,
            grace=grace.total_seconds(),
            most=COUNTED_UP_TO,
        )

    async def _not_active(self) -> dict[str, Any]:
        circuits = await self._rows("circuits", most=NAMED_UP_TO)
        endpoints = await self._rows("endpoints", most=NAMED_UP_TO)
        return {
            "circuits_open": [each["name"] for each in circuits if not each["probing"]],
            "circuits_probing": [each["name"] for each in circuits if each["probing"]],
            "endpoints_paused": [each["name"] for each in endpoints if each["state"] == "paused"],
            "endpoints_disabled": [
                each["name"] for each in endpoints if each["state"] == "disabled"
            ],
        }

    async def _rows(self, statement: str, **parameters: Any) -> Sequence[NamedRow]:
        return await self._database.fetch_named(
            f"status.{statement}", namespace=self._namespace, **parameters
        )
