"""Schedules on the books, as people and planners handle them, and every column of what is there."""

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
from tests.stores.books import Books, Row

TABLES = ("schedules", "progress", "deliveries", "agenda", "attempts", "audit")


class Rota:
    """The schedules of one process."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.store = books.store
        self.events: list[Event] = []
        chance = SystemChance()
        self.people = Schedules(
            self.store, books.clock, chance, self._know, 10_000, actor="somebody"
        )
        self.planner = Planner(self.store, books.clock, chance, self.events.append, poll=1.0)

    async def audit(self) -> list[AuditEntry]:
        """Who changed what, the latest first."""
        return await self.store.audit.page(99, before=2**62)

    async def _know(self, targets: Collection[str]) -> None:
        await self.store.targets.numbers(targets, create=True)

    async def declare(
        self, name: str, rule: Rule, payload: Any = None, target: str = "mail", **options: Any
    ) -> DeclaredSchedule:
        return await self.people.declare(name, rule, target, payload, **options)

    async def pending(self, name: str = "daily") -> str:
        """The id of the delivery that the schedule has on the books."""
        id = (await self.people.get(name)).next_id
        assert id is not None
        return id

    async def get(self, name: str = "daily") -> StoredSchedule:
        return await self.store.schedules.get(name)

    async def claim(self) -> list[Claimed]:
        """Claim all that is due for `mail`."""
        return await self.books.claim(await self.books.worker())

    async def row(self, name: str = "daily") -> Row:
        """Every column of a schedule."""
        (row,) = await self.books.sql(f"select * from duly.schedules where name = '{name}'")
        (progress,) = await self.books.sql(
            f"select * from duly.progress where schedule = {row['id']}"
        )
        return progress | row

    async def everything(self) -> dict[str, list[Row]]:
        """Every row of every table that a schedule touches, in a fixed order."""
        return {
            table: sorted(await self.books.sql(f"select * from duly.{table}"), key=str)
            for table in TABLES
        }

    async def occurrences(self, name: str = "daily") -> list[str]:
        """What the ledger has of a schedule that still is, in the order of their moments."""
        rows = await self.books.sql(
            "select d.occurrence from duly.deliveries d join duly.schedules s on s.id = d.schedule"
            f" where s.name = '{name}' order by d.due_at, d.occurrence"
        )
        return [row["occurrence"] for row in rows]

    def said(self, kind: type[Event]) -> list[Any]:
        """The events of one kind."""
        return [each for each in self.events if isinstance(each, kind)]


def stored(books: Books, moment: datetime) -> str:
    """A moment as SQL."""
    if isinstance(books.store.database, Postgres):
        return f"timestamptz '{moment.isoformat()}'"
    return str(round(moment.timestamp() * 1_000_000))
