"""Who heads the line of a stream, read and changed while stream and lane are locked.

Locks are taken in one order: first the stream's row, then its lane's. Whoever adds to a stream
takes the first, workers only ever take the second, so nobody waits in a circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from duly.domain.deliveries.delivery import Lane
from duly.domain.deliveries.fingerprints import fingerprint
from duly.domain.streams.operations import LEAVING, Fate, Intervention
from duly.domain.streams.stream import NEVER, Halt, StreamRow
from duly.stores.database import Session


async def facts(session: Session, lanes: Sequence[Lane], most: int) -> list[StreamRow]:
    """What is known of these streams, by name; those who wait are counted up to `most`."""
    rows = await session.fetch_named("queue.facts", lanes=list(lanes), most=most)
    return [StreamRow(**row) for row in rows]


async def locked(session: Session, namespace: str, name: str) -> StreamRow | None:
    """One stream with its lane, for somebody who changes it."""
    rows = await session.fetch("queue.lock", namespace=namespace, name=name)
    return await _held(session, rows[0][0]) if rows else None


async def opened(
    session: Session, namespace: str, name: str, counter: int = 0
) -> tuple[StreamRow, int]:
    """As `locked`, making it if need be; with its counter, which is at least the given one."""
    rows = await session.fetch("queue.open", namespace=namespace, name=name, counter=counter)
    lane, reached = rows[0]
    return await _held(session, lane), reached


async def _held(session: Session, lane: Lane) -> StreamRow:
    await session.fetch("queue.hold", lane=lane)
    (line,) = await facts(session, [lane], 0)
    return line


async def now(session: Session, namespace: str) -> datetime:
    """The moment by the store's clock."""
    rows = await session.fetch("schedules.now", namespace=namespace)
    moment: datetime = rows[0][0]
    return moment


async def write(session: Session, change: Intervention, moment: datetime) -> bool:
    """Write what was decided; False when the head is no longer what it was."""
    line, fate = change.line, change.fate
    settings = {name: getattr(line, name) for name in ("on_failure", "paused_at", "pause_reason")}
    await session.fetch("queue.change", lane=line.lane, **settings)
    if fate is not Fate.STAYS and not await _meet(session, change):
        return False
    if line.token is not None:
        await _halt(session, line, moment)
    elif line.position is not None and line.halted != Halt.BLOCKED:
        since = line.beginning if fate not in LEAVING else _behind(line)
        hurried = line.head if fate in (Fate.HURRIED, Fate.RAISED) else None
        await lead(session, line, since, moment, hurried)
    return True


async def _meet(session: Session, change: Intervention) -> bool:
    rows = await session.fetch(
        f"queue.{change.fate}", "any", id=change.line.head, **_particulars(change)
    )
    return bool(rows)


def _particulars(change: Intervention) -> dict[str, Any]:
    line = change.line
    match change.fate:
        case Fate.RAISED:
            return {"ids": [line.head], "lane": line.lane, "reset": True}
        case Fate.APART:
            return {"due_at": line.due_at}
        case Fate.BURIED:
            told = fingerprint("operator", change.note or line.error)
            return {"note": change.note, "fingerprint": told}
        case Fate.DISCARDED:
            return {"note": change.note}
    return {}


def _behind(line: StreamRow) -> int:
    assert line.position is not None
    after = line.position + 1
    return after if line.replay_from is None else min(after, line.replay_from)


async def _halt(session: Session, line: StreamRow, moment: datetime) -> None:
    paused = line.paused_at is not None
    await session.fetch(
        "queue.halt",
        lane=line.lane,
        halted=Halt.PAUSED if paused else None,
        halted_at=line.paused_at,
        due_at=NEVER if paused else moment,
    )


async def touch(session: Session, line: StreamRow) -> None:
    """Write a free lane as it is: a claim that read the line before then does not get it."""
    settings = {name: getattr(line, name) for name in ("halted", "halted_at", "due_at")}
    await session.fetch("queue.halt", lane=line.lane, **settings)


async def lead(
    session: Session, line: StreamRow, since: int, moment: datetime, hurried: str | None = None
) -> None:
    """Let the first in line from `since` on be the head of a lane that nobody holds.

    It is due when it was to be, or now if it is the `hurried` one. Without anybody the lane ends.
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
