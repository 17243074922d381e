"""What is known of running deliveries beside their lanes: progress, and requests to cancel."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from duly.ports import Report, RunningDelivery
from duly.records.progress import Progress
from duly.stores.access.audit import note
from duly.stores.database import Database

MOST = 1000


class Running:
    """The running deliveries of some namespaces, or of all."""

    def __init__(self, database: Database, namespace: str, served: Sequence[str] | None) -> None:
        self._database = database
        self._namespace = namespace
        self._served = None if served is None else list(served)

    async def ask(self, id: str, actor: str | None = None) -> bool:
        """Ask to cancel a delivery that runs; False if it does not run."""
        async with self._database.together() as session:
            rows = await session.fetch("running.ask", id=id, namespace=self._namespace, actor=actor)
            if rows and rows[0][1] and actor is not None:
                await note(session, self._namespace, actor, "delivery.cancel_asked", id)
        return bool(rows)

    async def asked(self, ids: Collection[str]) -> set[str]:
        """Those of these deliveries that somebody asked to cancel."""
        rows = await self._database.fetch_named("running.asked", ids=list(ids))
        return {row["delivery"] for row in rows}

    async def report(self, reports: Sequence[Report]) -> None:
        """Write what attempts reported, unless they have ended."""
        names = Report.__struct_fields__
        columns = {name: [getattr(each, name) for each in reports] for name in names}
        await self._database.fetch_batch("running.report", columns=columns)

    async def look(self) -> list[RunningDelivery]:
        """Those of the served namespaces that were asked to cancel, or whose row can go."""
        rows = await self._database.fetch_named("running.look", served=self._served, limit=MOST)
        return [RunningDelivery(**row) for row in rows]

    async def clear(self) -> None:
        """Remove what belongs to deliveries or attempts that have ended."""
        await self._database.fetch("running.clear")

    async def reported(self, limit: int) -> list[Progress]:
        """The latest reports of progress in the namespace."""
        rows = await self._database.fetch_named(
            "running.reported", namespace=self._namespace, limit=limit
        )
        return [Progress(**row) for row in rows]
