"""Streams as operators see and change them, and how a planned delivery joins one.

Nothing is decided here: the caller of a change passes a function that decides, which is called with
the stream and its lane locked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from duly.domain.deliveries.delivery import Claimed, Lane
from duly.domain.monitoring.alerts import AlertCause, stream_released
from duly.domain.streams.operations import HeadAction, Intervention, Member, end_block
from duly.domain.streams.selection import (
    MOST_RELEASED,
    Selection,
    refuse_unless_behind,
    released,
)
from duly.domain.streams.stream import StreamRow, no_stream
from duly.errors import Conflict
from duly.failpoints import hit
from duly.ports import DecideStream, EndedBlock, Joined
from duly.records.alert import AlertKind
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
            await self._write(session, change, moment)
            if change.action is not HeadAction.STAYS:
                detail = {"head": stream.head, **(detail or {})}
            await note(session, self._namespace, actor, f"stream.{action}", name, detail)

    async def _write(self, session: Session, change: Intervention, moment: datetime) -> None:
        await hit("stream.before")
        if not await heads.write(session, change, moment):
            raise Conflict(f"the head of stream {change.line.name!r} no longer exists; try again")
        await hit("stream.middle")

    async def release_followers(self, name: str, chosen: Selection, actor: str) -> None:
        """Let chosen deliveries behind a failed head leave the queue."""
        async with self._database.together() as session:
            stream, _ = await self._locked(session, name, create=False)
            members = await session.fetch(
                "queue.members", ids=list(chosen.ids), namespace=self._namespace
            )
            refuse_unless_behind(stream, chosen, [Member(*row) for row in members])
            ids = released(stream, chosen, await self._followers(session, stream, chosen))
            await hit("stream.before")
            await session.fetch("queue.set_apart", "any", ids=ids, lane=stream.lane)
            await heads.touch(session, stream)
            await hit("stream.middle")
            detail = {"head": stream.head, chosen.field: chosen.ids, "released": len(ids)}
            await note(session, self._namespace, actor, "stream.released", name, detail)
        await hit("stream.after")

    async def _followers(
        self, session: Session, stream: StreamRow, chosen: Selection
    ) -> Sequence[str]:
        if chosen.field == "only":
            return ()
        most = MOST_RELEASED + len(chosen.ids) + 1
        rows = await session.fetch("queue.followers", lane=stream.lane, limit=most)
        return [row[0] for row in rows]

    async def end_block(self, name: str, actor: str) -> EndedBlock | None:
        """Release a failed head that has blocked the stream for long enough."""
        async with self._database.together() as session:
            stream = await heads.locked(session, self._namespace, name)
            if stream is None or stream.head is None or stream.block_for is None:
                return None
            moment = await heads.now(session, self._namespace)
            change = end_block(stream, moment)
            if change is None:
                return None
            await self._write(session, change, moment)
            detail = {"head": stream.head, "block_for": stream.block_for}
            await note(session, self._namespace, actor, "stream.released", name, detail)
            alert = await self._raise_alert(session, stream)
        await hit("stream.after")
        return EndedBlock(name, stream.head, stream.block_for, alert)

    async def _raise_alert(self, session: Session, stream: StreamRow) -> AlertCause | None:
        """Raise the alert of an ended block, or mark it as still active; None in that case."""
        rows = await session.fetch_named("alerts.raised", namespace=self._namespace)
        known = [row["subject"] for row in rows if row["kind"] == AlertKind.STREAM_RELEASED]
        cause = stream_released(stream.name, stream.head or "", stream.block_for or 0.0, known)
        values = {"namespace": self._namespace} | msgspec.structs.asdict(cause)
        if await session.fetch("alerts.raise", **values):
            return cause
        await session.fetch("alerts.see", **values)
        return None

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
