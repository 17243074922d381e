"""The streams in which occurrences of schedules with `overlap="queue"` wait for each other.

Such an occurrence is planned in a separate lane. When it is due, it joins the stream of its
schedule together with all earlier occurrences that have not joined yet, so that the stream is in
order whichever is claimed first. Locks are taken as in `heads`: first the stream's row, then lanes.
"""

from __future__ import annotations

from duly.domain.deliveries.delivery import Claimed
from duly.domain.streams.stream import StreamRow
from duly.ports import Joined
from duly.stores.database import Database, Session
from duly.stores.streams import heads
from duly.stores.streams.queue import LONGEST_RUN

MOST_AT_ONCE = 500


async def join(database: Database, namespace: str, claimed: Claimed, stream: str) -> Joined:
    """Let a delivery join the stream of its schedule, behind all that were due before it."""
    async with database.together() as session:
        opened = await session.fetch("queue.open", namespace=namespace, name=stream, counter=0)
        rows = await session.fetch(
            "streams.unjoined", "any", lane=claimed.lane, token=claimed.token, most=MOST_AT_ONCE
        )
        if not rows:
            return Joined.GONE
        free = [id for id, _, is_free in rows if is_free]
        if len(free) < len(rows):
            return Joined.MUST_WAIT
        await session.fetch("streams.join", "any", line=opened[0][0], ids=free)
        # If there are too many before it, it is claimed again after these have joined.
        return Joined.QUEUED if claimed.id in free else Joined.MUST_WAIT


async def cancel(session: Session, namespace: str, stream: str) -> None:
    """Cancel all that wait in a stream; a run that a worker has claimed continues."""
    row = await heads.locked(session, namespace, stream)
    if row is None or row.position is None:
        return
    since = row.beginning if row.token is None else await _behind_run(session, row)
    if since is not None:
        await session.fetch("streams.cancel_line", lane=row.lane, since=since)
    if row.token is None:
        moment = await heads.now(session, namespace)
        await heads.lead(session, row, row.beginning, moment)


async def _behind_run(session: Session, row: StreamRow) -> int | None:
    """The first position behind the run that is claimed, or None."""
    rows = await session.fetch(
        "queue.behind_run", lane=row.lane, since=row.beginning, run=LONGEST_RUN
    )
    return rows[0][0] if rows else None
