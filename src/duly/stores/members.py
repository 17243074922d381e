"""Single deliveries that stand in the line of a stream, or stood there: cancelled and retried."""

from __future__ import annotations

from duly.domain.interventions import (
    Member,
    Return,
    cancels_head,
    comes_back,
    is_dead,
    refuse_if_behind,
)
from duly.domain.lines import Line
from duly.domain.states import State
from duly.stores import heads
from duly.stores.database import Database, Session
from duly.stores.lines import LONGEST_RUN


class Members:
    """Those with a place in a stream of one namespace; each move is one transaction."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def cancel(self, id: str) -> bool:
        """Cancel one that waits in line; False when it is in no state for that.

        Conflict when it may be under way with others of its stream.
        """
        async with self._database.together() as session:
            found = await self._locked(session, id)
            if found is None:
                return False
            line, member = found
            if member.lane is None:
                return await self._plainly(session, "cancel", id)
            if member.state != State.PENDING or _is_processing(line, member):
                return False
            leads = cancels_head(line, member, in_run=await _in_run(session, line, member))
            if not await session.fetch("lines.cancel", id=id):
                return False
            if leads:
                moment = await heads.now(session, self._namespace)
                await heads.lead(session, line, line.beginning, moment)
        return True

    async def retry(self, id: str) -> bool:
        """Put a dead letter back into its line, or make one that waits due now.

        False when it is in no state for that; Conflict when others have to go before it.
        """
        async with self._database.together() as session:
            member = await self._member(session, id)
            if member is None:
                return False
            line, reached = await heads.opened(session, self._namespace, member.stream)
            member = await self._member(session, id)
            if member is None or _is_processing(line, member):
                return False
            if is_dead(member):
                return await self._bring_back(session, line, member, reached)
            if member.lane is None:
                return await self._plainly(session, "retry", id)
            if member.state != State.PENDING:
                return False
            refuse_if_behind(line, member)
            await session.fetch("lines.hurry", id=id)
            moment = await heads.now(session, self._namespace)
            await heads.lead(session, line, _beginning(line, member), moment, id)
        return True

    async def _locked(self, session: Session, id: str) -> tuple[Line, Member] | None:
        """It and its line; it is read again when both are locked."""
        member = await self._member(session, id)
        line = member and await heads.locked(session, self._namespace, member.stream)
        if not line:
            return None
        member = await self._member(session, id)
        return None if member is None else (line, member)

    async def _member(self, session: Session, id: str) -> Member | None:
        rows = await session.fetch("lines.member", id=id, namespace=self._namespace)
        return Member(*rows[0]) if rows else None

    async def _plainly(self, session: Session, verb: str, id: str) -> bool:
        rows = await session.fetch(f"deliveries.{verb}", "any", id=id, namespace=self._namespace)
        return bool(rows)

    async def _bring_back(self, session: Session, line: Line, member: Member, reached: int) -> bool:
        position = await self._place(session, line, member, reached)
        back = Member(member.id, member.stream, line.lane, position, member.state)
        raised = await session.fetch("lines.raise", id=back.id, lane=line.lane, position=position)
        if not raised:
            return False
        match comes_back(line, back):
            case Return.REPLAYED:
                await session.fetch("lines.replay", lane=line.lane, position=position)
            case Return.LEADS:
                moment = await heads.now(session, self._namespace)
                await heads.lead(session, line, _beginning(line, back), moment, back.id)
        return True

    async def _place(self, session: Session, line: Line, member: Member, reached: int) -> int:
        """Its old place, unless the stream was forgotten meanwhile and that is another's now."""
        place = member.position
        rows = await session.fetch("lines.taken", lane=line.lane, position=place, id=member.id)
        if rows[0][0]:
            place = reached + 1
        if place > reached:
            await heads.opened(session, self._namespace, member.stream, place)
        return place


def _beginning(line: Line, member: Member) -> int:
    """Where the line begins now that it stands there too."""
    return member.position if line.position is None else min(line.beginning, member.position)


def _is_processing(line: Line, member: Member) -> bool:
    return line.token is not None and line.head == member.id


async def _in_run(session: Session, line: Line, member: Member) -> bool:
    """Whether whoever holds the lane may have claimed it too; it is asked of no free lane."""
    if line.token is None or line.position is None:
        return False
    if line.replay_from is not None:
        # Somebody came back into the line meanwhile, so that counting does not tell.
        return True
    rows = await session.fetch(
        "lines.before",
        lane=line.lane,
        since=line.position,
        position=member.position,
        limit=LONGEST_RUN,
    )
    return bool(rows[0][0] < LONGEST_RUN)
