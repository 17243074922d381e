"""The lines in which occurrences of schedules with `overlap="queue"` wait for each other.

Such an occurrence is planned in a lane of its own. When it is due it joins the stream of its
schedule, with whatever fell due before it and is not there yet, so that the line is in order
whoever comes first. Locks are taken as in heads: first the stream's row, then lanes.
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
    """Let a delivery join the line of its schedule, behind all that fell due before it."""
    async with database.together() as session:
        line = await session.fetch("queue.open", namespace=namespace, name=stream, counter=0)
        rows = await session.fetch(
            "streams.unjoined", "any", lane=claimed.lane, token=claimed.token, most=MOST_AT_ONCE
        )
        if not rows:
            return Joined.GONE
        free = [id for id, _, is_free in rows if is_free]
        if len(free) < len(rows):
            return Joined.MUST_WAIT
        await session.fetch("streams.join", "any", line=line[0][0], ids=free)
        # With very many before it, it comes again when these are in line.
        return Joined.IN_LINE if claimed.id in free else Joined.MUST_WAIT


async def cancel(session: Session, namespace: str, stream: str) -> None:
    """Cancel all that wait in a line; a run that somebody has claimed goes on."""
    line = await heads.locked(session, namespace, stream)
    if line is None or line.position is None:
        return
    since = line.beginning if line.token is None else await _behind_run(session, line)
    if since is not None:
        await session.fetch("streams.cancel_line", lane=line.lane, since=since)
    if line.token is None:
        moment = await heads.now(session, namespace)
        await heads.lead(session, line, line.beginning, moment)


async def _behind_run(session: Session, line: StreamRow) -> int | None:
    """The first place that nobody has claimed with the run that is under way."""
    rows = await session.fetch(
        "queue.behind_run", lane=line.lane, since=line.beginning, run=LONGEST_RUN
    )
    return rows[0][0] if rows else None
