"""The parent spans of deliveries; rows exist only if the application uses tracing."""

from __future__ import annotations

from duly.stores.database import Database


class Traces:
    """The traces of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def keep(self, delivery: str, parent: str) -> None:
        """Store the span in which the delivery was accepted."""
        await self._database.fetch(
            "traces.keep", namespace=self._namespace, delivery=delivery, parent=parent
        )

    async def parent(self, delivery: str) -> str | None:
        """The span in which the delivery was accepted, if known."""
        rows = await self._database.fetch_named("traces.parent", delivery=delivery)
        return rows[0]["parent"] if rows else None
