"""Those that stand in the line of a stream, or stood there: cancelled, retried and discarded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from duly.domain.deliveries.states import State
from duly.domain.streams.operations import (
    Member,
    Return,
    cancels_head,
    comes_back,
    discard,
    is_dead,
    refuse_if_behind,
)
from duly.domain.streams.stream import StreamRow
from duly.stores.database import Database, Session
from duly.stores.streams import heads
from duly.stores.streams.queue import LONGEST_RUN

Tell = Callable[[Session], Awaitable[None]]
"""What writes of a move, in its transaction."""


class Members:
    """Those with a place in a stream of one namespace; each move is one transaction."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def cancel(self, id: str, tell: Tell | None = None) -> bool:
        """Cancel one that waits in line; False when it is in no state for that.

        Conflict when it may be under way with others of its stream. If it was moved, `tell` is
        called in the same transaction.
        """
        return await self._told(self.cancel_within, id, tell)

    async def retry(self, id: str, tell: Tell | None = None) -> bool:
        """Put a dead letter back into its line, or make one that waits due now.

        False when it is in no state for that; Conflict when others have to go before it. If it was
        moved, `tell` is called in the same transaction.
        """
        return await self._told(self._retry, id, tell)

    async def _told(
        self, move: Callable[[Session, str], Awaitable[bool]], id: str, tell: Tell | None
    ) -> bool:
        async with self._database.together() as session:
            moved = await move(session, id)
            if moved and tell is not None:
                await tell(session)
        return moved

    async def cancel_within(self, session: Session, id: str) -> bool:
        """As cancel, in somebody's transaction."""
        found = await self._locked(session, id)
        if found is None:
            return False
        line, member = found
        if member.lane is None:
            return await self._plainly(session, "cancel", id)
        if member.state != State.PENDING or _is_processing(line, member):
            return False
        leads = cancels_head(line, member, in_run=await _in_run(session, line, member))
        if not await session.fetch("queue.cancel", id=id):
            return False
        if leads:
            moment = await heads.now(session, self._namespace)
            await heads.lead(session, line, line.beginning, moment)
        elif line.token is None:
            await heads.touch(session, line)
        return True

    async def _retry(self, session: Session, id: str) -> bool:
        if await self.bring_back(session, [id], True):
            return True
        found = await self._locked(session, id)
        if found is None:
            return False
        line, member = found
        if _is_processing(line, member):
            return False
        if member.lane is None:
            return await self._plainly(session, "hurry", id)
        if member.state != State.PENDING:
            return False
        refuse_if_behind(line, member)
        await session.fetch("queue.hurry", id=id)
        moment = await heads.now(session, self._namespace)
        await heads.lead(session, line, _beginning(line, member), moment, id)
        return True

    async def _locked(self, session: Session, id: str) -> tuple[StreamRow, Member] | None:
        """It and its line; it is read again when both are locked."""
        found = await self._members(session, [id])
        line = found and await heads.locked(session, self._namespace, found[0].stream)
        if not line:
            return None
        found = await self._members(session, [id])
        return (line, found[0]) if found else None

    async def _members(self, session: Session, ids: list[str]) -> list[Member]:
        rows = await session.fetch("queue.members", ids=ids, namespace=self._namespace)
        return [Member(*row) for row in rows]

    async def _plainly(self, session: Session, verb: str, id: str) -> bool:
        rows = await session.fetch(f"ledger.{verb}", "any", id=id, namespace=self._namespace)
        return bool(rows)

    async def bring_back(self, session: Session, ids: list[str], reset: bool) -> int:
        """Put dead letters of one stream back into its line; returns how many."""
        found = await self._members(session, ids)
        if not any(map(is_dead, found)):
            return 0
        line, reached = await heads.opened(session, self._namespace, found[0].stream)
        # Read again: only now nobody else brings them back.
        dead = list(filter(is_dead, await self._members(session, ids)))
        placed = await self._placed(session, line, dead, reached)
        rows = await session.fetch(
            "queue.raise", ids=[each.id for each in placed], lane=line.lane, reset=reset
        )
        raised = {row[0] for row in rows}
        await self._rejoin(session, line, [each for each in placed if each.id in raised])
        return len(raised)

    async def _rejoin(self, session: Session, line: StreamRow, back: Sequence[Member]) -> None:
        """Let the line know of those who came back, in the order of their places."""
        if not back:
            return
        match comes_back(line, back):
            case Return.REPLAYED:
                await session.fetch("queue.replay", lane=line.lane, position=back[0].position)
            case Return.LEADS:
                moment = await heads.now(session, self._namespace)
                await heads.lead(session, line, _beginning(line, back[0]), moment, back[0].id)

    async def _placed(
        self, session: Session, line: StreamRow, members: Sequence[Member], reached: int
    ) -> list[Member]:
        """At their old places, unless the stream was forgotten meanwhile and those are others'."""
        if not members:
            return []
        last = max(reached, members[-1].position)
        taken = await self._taken(session, line, members)
        placed = []
        for member in members:
            if member.position in taken:
                last += 1
                await session.fetch("queue.place", id=member.id, position=last)
                placed.append(msgspec.structs.replace(member, position=last))
            else:
                taken.add(member.position)
                placed.append(member)
        if last > reached:
            await heads.opened(session, self._namespace, line.name, last)
        return sorted(placed, key=lambda each: each.position)

    async def _taken(
        self, session: Session, line: StreamRow, members: Sequence[Member]
    ) -> set[int]:
        rows = await session.fetch(
            "queue.taken",
            lane=line.lane,
            positions=[each.position for each in members],
            ids=[each.id for each in members],
        )
        return {row[0] for row in rows}

    async def discard(self, session: Session, id: str, note: str) -> bool:
        """Give a dead letter up for good; those behind one that blocks its stream go on."""
        found = await self._locked(session, id)
        if found is None or not is_dead(found[1]):
            return False
        change = discard(*found, note)
        if change is None:
            return bool(await session.fetch("queue.discard", id=id, note=note))
        return await heads.write(session, change, await heads.now(session, self._namespace))


def _beginning(line: StreamRow, member: Member) -> int:
    """Where the line begins now that it stands there too."""
    return member.position if line.position is None else min(line.beginning, member.position)


def _is_processing(line: StreamRow, member: Member) -> bool:
    return line.token is not None and line.head == member.id


async def _in_run(session: Session, line: StreamRow, member: Member) -> bool:
    """Whether whoever holds the lane may have claimed it too; it is asked of no free lane."""
    if line.token is None or line.position is None:
        return False
    if line.replay_from is not None:
        # Somebody came back into the line meanwhile, so that counting does not tell.
        return True
    rows = await session.fetch(
        "queue.before",
        lane=line.lane,
        since=line.position,
        position=member.position,
        limit=LONGEST_RUN,
    )
    return bool(rows[0][0] < LONGEST_RUN)
