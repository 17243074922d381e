"""Streams as people handle them, and how a planned delivery joins one."""

from __future__ import annotations

from duly.domain.delivery import Claimed
from duly.stores.database import Database


class Streams:
    """The streams of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def enlist(self, claimed: Claimed) -> bool:
        """Let a delivery join the line of its stream; False when it is no longer held."""
        rows = await self._database.fetch(
            "streams.enlist",
            "any",
            namespace=self._namespace,
            stream=claimed.stream,
            lane=claimed.lane,
            token=claimed.token,
        )
        return bool(rows)
