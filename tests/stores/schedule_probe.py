"""Test access to schedules: the service, a planner, and every column that they wrote."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from duly.domain.deliveries.delivery import Claimed
from duly.domain.events import Event
from duly.domain.schedules.schedule import StoredSchedule
from duly.domain.time.rules import Rule
from duly.engine.planner import Planner
from duly.records.audit_entry import AuditEntry
from duly.records.schedule import DeclaredSchedule
from duly.services.schedules.schedules import Schedules
from duly.stores.postgres.database import Postgres
from duly.system import SystemChance
from tests.stores.store_probe import Row, StoreProbe

TABLES = ("schedules", "progress", "deliveries", "agenda", "attempts", "audit")


class ScheduleProbe:
    """The schedules of one process."""

    def __init__(self, probe: StoreProbe) -> None:
        self.probe = probe
        self.store = probe.store
        self.events: list[Event] = []
        chance = SystemChance()
        self.service = Schedules(
            self.store, probe.clock, chance, self._create_targets, 10_000, actor="kim"
        )
        self.planner = Planner(self.store, probe.clock, chance, self.events.append, poll=1.0)

    async def audit(self) -> list[AuditEntry]:
        """The audit entries, latest first."""
        return await self.store.audit.page(99, before=2**62)

    async def _create_targets(self, targets: Collection[str]) -> None:
        await self.store.targets.numbers(targets, create=True)

    async def declare(
        self, name: str, rule: Rule, payload: Any = None, target: str = "mail", **options: Any
    ) -> DeclaredSchedule:
        return await self.service.declare(name, rule, target, payload, **options)

    async def pending(self, name: str = "daily") -> str:
        """The id of the schedule's pending delivery."""
        id = (await self.service.get(name)).next_id
        assert id is not None
        return id

    async def get(self, name: str = "daily") -> StoredSchedule:
        return await self.store.schedules.get(name)

    async def claim(self) -> list[Claimed]:
        """Claim everything that is due for `mail`."""
        return await self.probe.claim(await self.probe.worker())

    async def row(self, name: str = "daily") -> Row:
        """Every column of a schedule."""
        (row,) = await self.probe.sql(f"select * from duly.schedules where name = '{name}'")
        (progress,) = await self.probe.sql(
            f"select * from duly.progress where schedule = {row['id']}"
        )
        return progress | row

    async def everything(self) -> dict[str, list[Row]]:
        """Every row of the tables that schedules use, in a fixed order."""
        return {
            table: sorted(await self.probe.sql(f"select * from duly.{table}"), key=str)
            for table in TABLES
        }

    async def occurrences(self, name: str = "daily") -> list[str]:
        """The occurrences that the ledger has of an existing schedule, by due moment."""
        rows = await self.probe.sql(
            "select d.occurrence from duly.deliveries d join duly.schedules s on s.id = d.schedule"
            f" where s.name = '{name}' order by d.due_at, d.occurrence"
        )
        return [row["occurrence"] for row in rows]

    def events_of(self, kind: type[Event]) -> list[Any]:
        """The events of one kind."""
        return [each for each in self.events if isinstance(each, kind)]


def sql_moment(probe: StoreProbe, moment: datetime) -> str:
    """A moment as SQL."""
    if isinstance(probe.store.database, Postgres):
        return f"timestamptz '{moment.isoformat()}'"
    return str(round(moment.timestamp() * 1_000_000))
