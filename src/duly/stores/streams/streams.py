"""Streams as operators see and change them, and how a planned delivery joins one.

Nothing is decided here: the caller of a change passes a function that decides, which is called with
the stream and its lane locked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from duly.domain.deliveries.delivery import Claimed, Lane
from duly.domain.streams.operations import HeadAction, Intervention
from duly.domain.streams.stream import StreamRow, no_stream
from duly.errors import Conflict
from duly.ports import DecideStream, Joined
from duly.records.stream import StreamState
from duly.stores.access.audit import note
from duly.stores.database import Database, Session
from duly.stores.streams import heads, overlap_queues


class Streams:
    """The streams of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def enlist(self, claimed: Claimed) -> bool:
        """Let a delivery join its stream's queue; False if its lane is no longer held."""
        rows = await self._database.fetch(
            "streams.enlist",
            "any",
            namespace=self._namespace,
            stream=claimed.stream,
            lane=claimed.lane,
            token=claimed.token,
        )
        return bool(rows)

    async def join(self, claimed: Claimed, stream: str) -> Joined:
        """Let an occurrence of a schedule join a stream, behind all that were due before it."""
        return await overlap_queues.join(self._database, self._namespace, claimed, stream)

    async def get(self, name: str, most: int) -> StreamRow:
        """One stream, or NotFound; waiting deliveries are counted up to `most`."""
        rows = await self._database.fetch_named("queue.find", namespace=self._namespace, name=name)
        lanes = [row["lane"] for row in rows]
        found = await heads.facts(self._database, lanes, most) if lanes else []
        if not found:
            raise no_stream(name)
        return found[0]

    async def page(
        self, state: StreamState | None, after: str, limit: int, most: int
    ) -> list[StreamRow]:
        """Streams by name: all, or those that are blocked or paused."""
        lanes = await self._lanes(state, after, limit)
        return await heads.facts(self._database, lanes, most) if lanes else []

    async def _lanes(self, state: StreamState | None, after: str, limit: int) -> Sequence[Lane]:
        parameters: dict[str, Any] = {"namespace": self._namespace, "after": after, "limit": limit}
        if state is StreamState.BLOCKED:
            rows = await self._database.fetch_named("queue.blocked", "any", **parameters)
        else:
            paused = state is StreamState.PAUSED
            rows = await self._database.fetch_named(
                "queue.page", "any", paused=paused, **parameters
            )
        return [row["lane"] for row in rows]

    async def revise(
        self,
        name: str,
        decide: DecideStream,
        actor: str,
        action: str,
        detail: Mapping[str, Any] | None = None,
        *,
        create: bool = False,
    ) -> None:
        """Change one with `decide`, which is called with it and its lane locked."""
        async with self._database.together() as session:
            stream, moment = await self._locked(session, name, create)
            change = decide(stream, moment)
            if change == Intervention(line=stream):
                return
            if not await heads.write(session, change, moment):
                raise Conflict(f"the head of stream {name!r} no longer exists; try again")
            if change.action is not HeadAction.STAYS:
                detail = {"head": stream.head, **(detail or {})}
            await note(session, self._namespace, actor, f"stream.{action}", name, detail)

    async def _locked(
        self, session: Session, name: str, create: bool
    ) -> tuple[StreamRow, datetime]:
        if create:
            stream, _ = await heads.opened(session, self._namespace, name)
        else:
            found = await heads.locked(session, self._namespace, name)
            if found is None:
                raise no_stream(name)
            stream = found
        return stream, await heads.now(session, self._namespace)
