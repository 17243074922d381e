"""The head of a stream's queue, read and changed while the stream and its lane are locked.

Locks are taken in one order: first the stream's row, then its lane's. Adding to a stream takes only
the first, workers take only the second, so there is no deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from duly.domain.deliveries.delivery import Lane
from duly.domain.deliveries.fingerprints import fingerprint
from duly.domain.streams.operations import LEAVING, HeadAction, Intervention
from duly.domain.streams.stream import NEVER, Halt, StreamRow
from duly.ports.dead_letters import BY_OPERATOR
from duly.stores.database import Session

SETTINGS = ("on_failure", "block_for", "paused_at", "pause_reason")


async def facts(session: Session, lanes: Sequence[Lane], most: int) -> list[StreamRow]:
    """The rows of these streams, by name; waiting deliveries are counted up to `most`."""
    rows = await session.fetch_named("queue.facts", lanes=list(lanes), most=most)
    return [StreamRow(**row) for row in rows]


async def locked(session: Session, namespace: str, name: str) -> StreamRow | None:
    """One stream, with its row and its lane locked; None if it does not exist."""
    rows = await session.fetch("queue.lock", namespace=namespace, name=name)
    return await _lock_lane(session, rows[0][0]) if rows else None


async def opened(
    session: Session, namespace: str, name: str, counter: int = 0
) -> tuple[StreamRow, int]:
    """As `locked`, creating the stream if needed; also returns its counter, raised to `counter`."""
    rows = await session.fetch("queue.open", namespace=namespace, name=name, counter=counter)
    lane, counter_now = rows[0]
    return await _lock_lane(session, lane), counter_now


async def _lock_lane(session: Session, lane: Lane) -> StreamRow:
    await session.fetch("queue.hold", lane=lane)
    (stream,) = await facts(session, [lane], 0)
    return stream


async def now(session: Session, namespace: str) -> datetime:
    """The current time by the store's clock."""
    rows = await session.fetch("schedules.now", namespace=namespace)
    moment: datetime = rows[0][0]
    return moment


async def write(session: Session, change: Intervention, moment: datetime) -> bool:
    """Write an operator's change; False if the head has changed since it was read."""
    stream, action = change.line, change.action
    settings = {name: getattr(stream, name) for name in SETTINGS}
    await session.fetch("queue.change", lane=stream.lane, **settings)
    if change.limits_anew:
        await _limit(session, stream, moment)
    if action is not HeadAction.STAYS and not await _apply(session, change):
        return False
    if stream.token is not None:
        await _halt(session, stream, moment)
    elif stream.position is not None and stream.halted != Halt.BLOCKED:
        since = stream.beginning if action not in LEAVING else _position_behind(stream)
        hurried = stream.head if action in (HeadAction.HURRIED, HeadAction.RAISED) else None
        await lead(session, stream, since, moment, hurried)
    return True


async def _limit(session: Session, stream: StreamRow, moment: datetime) -> None:
    """Set when the present block ends: if unknown, so long after its head's first failure."""
    until = None if stream.block_for is None else stream.unblocks_at
    if stream.block_for is not None and until is None:
        rows = await session.fetch("queue.first_failure", id=stream.head)
        until = (rows[0][0] or moment) + timedelta(seconds=stream.block_for)
    await session.fetch("queue.limit", lane=stream.lane, unblocks_at=until)


async def _apply(session: Session, change: Intervention) -> bool:
    rows = await session.fetch(
        f"queue.{change.action}", "any", id=change.line.head, **_parameters(change)
    )
    return bool(rows)


def _parameters(change: Intervention) -> dict[str, Any]:
    stream = change.line
    match change.action:
        case HeadAction.RAISED:
            given = {"ids": [stream.head], "lane": stream.lane, "reset": True}
            return given | BY_OPERATOR.parameters
        case HeadAction.APART:
            return {"due_at": stream.due_at}
        case HeadAction.MADE_DEAD:
            error_fingerprint = fingerprint("operator", change.note or stream.error)
            return {"note": change.note, "fingerprint": error_fingerprint}
        case HeadAction.DISCARDED:
            return {"note": change.note}
    return {}


def _position_behind(stream: StreamRow) -> int:
    assert stream.position is not None
    after = stream.position + 1
    return after if stream.replay_from is None else min(after, stream.replay_from)


async def _halt(session: Session, stream: StreamRow, moment: datetime) -> None:
    paused = stream.paused_at is not None
    await session.fetch(
        "queue.halt",
        lane=stream.lane,
        halted=Halt.PAUSED if paused else None,
        halted_at=stream.paused_at,
        due_at=NEVER if paused else moment,
    )


async def touch(session: Session, line: StreamRow) -> None:
    """Rewrite a free lane unchanged, so that a concurrent claim that read it before fails."""
    settings = {name: getattr(line, name) for name in ("halted", "halted_at", "due_at")}
    await session.fetch("queue.halt", lane=line.lane, **settings)


async def lead(
    session: Session, line: StreamRow, since: int, moment: datetime, hurried: str | None = None
) -> None:
    """Make the first delivery at or after position `since` the head of a lane that is not held.

    It keeps its due time, or is due now if it is the `hurried` one. If there is none, the lane is
    removed.
    """
    rows = await session.fetch_named("queue.next", lane=line.lane, since=since)
    if not rows:
        await session.fetch("queue.drop", lane=line.lane)
        return
    head = dict(rows[0])
    if head["id"] == hurried:
        head["due_at"] = moment
    if line.paused_at is not None:
        head["due_at"] = NEVER
    halted = None if line.paused_at is None else Halt.PAUSED
    await session.fetch(
        "queue.lay", lane=line.lane, halted=halted, halted_at=line.paused_at, **head
    )
