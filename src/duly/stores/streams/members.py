"""Deliveries with a position in a stream: cancelled, retried and discarded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from duly.domain.streams.operations import (
    Member,
    Return,
    can_return,
    cancels_head,
    comes_back,
    discard,
    give_up,
    is_dead,
    refuse_if_behind,
)
from duly.domain.streams.stream import StreamRow
from duly.ports.dead_letters import BY_OPERATOR, Cause
from duly.records.recovery import Disposition
from duly.records.state import State
from duly.stores.database import Database, Session
from duly.stores.streams import heads
from duly.stores.streams.queue import LONGEST_RUN

WriteAudit = Callable[[Session], Awaitable[None]]
"""Writes the audit entry of an operation, in its transaction."""


class Members:
    """Deliveries in streams of one namespace; each operation is one transaction."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def cancel(self, id: str, audit: WriteAudit | None = None) -> bool:
        """Cancel one that waits in its stream; False if its state does not allow that.

        Conflict if a worker may have claimed it in a run. If it was cancelled, `audit` is called in
        the same transaction.
        """
        return await self._in_transaction(self.cancel_within, id, audit)

    async def retry(self, id: str, audit: WriteAudit | None = None) -> bool:
        """Put a dead letter back into its stream, or make a waiting delivery due now.

        False if its state does not allow that; Conflict if others in the stream come first. If it
        was changed, `audit` is called in the same transaction.
        """
        return await self._in_transaction(self._retry, id, audit)

    async def _in_transaction(
        self,
        operation: Callable[[Session, str], Awaitable[bool]],
        id: str,
        audit: WriteAudit | None,
    ) -> bool:
        async with self._database.together() as session:
            changed = await operation(session, id)
            if changed and audit is not None:
                await audit(session)
        return changed

    async def cancel_within(self, session: Session, id: str) -> bool:
        """As `cancel`, in the caller's transaction."""
        found = await self._locked(session, id)
        if found is None:
            return False
        stream, member = found
        if member.lane is None:
            return await self._in_ledger(session, "cancel", id)
        if member.state != State.PENDING or _is_processing(stream, member):
            return False
        is_head = cancels_head(stream, member, in_run=await _in_run(session, stream, member))
        if not await session.fetch("queue.cancel", id=id):
            return False
        if is_head:
            moment = await heads.now(session, self._namespace)
            await heads.lead(session, stream, stream.beginning, moment)
        elif stream.token is None:
            await heads.touch(session, stream)
        return True

    async def _retry(self, session: Session, id: str) -> bool:
        if await self.bring_back(session, [id], True):
            return True
        found = await self._locked(session, id)
        if found is None:
            return False
        stream, member = found
        if _is_processing(stream, member):
            return False
        if member.lane is None:
            return await self._in_ledger(session, "hurry", id)
        if member.state != State.PENDING:
            return False
        refuse_if_behind(stream, member)
        await session.fetch("queue.hurry", id=id)
        moment = await heads.now(session, self._namespace)
        await heads.lead(session, stream, _beginning(stream, member), moment, id)
        return True

    async def _locked(self, session: Session, id: str) -> tuple[StreamRow, Member] | None:
        """The stream, locked, and the delivery, read again after that."""
        found = await self._members(session, [id])
        stream = found and await heads.locked(session, self._namespace, found[0].stream)
        if not stream:
            return None
        found = await self._members(session, [id])
        return (stream, found[0]) if found else None

    async def _members(self, session: Session, ids: list[str]) -> list[Member]:
        rows = await session.fetch("queue.members", ids=ids, namespace=self._namespace)
        return [Member(*row) for row in rows]

    async def _in_ledger(self, session: Session, verb: str, id: str) -> bool:
        rows = await session.fetch(f"ledger.{verb}", "any", id=id, namespace=self._namespace)
        return bool(rows)

    async def bring_back(
        self, session: Session, ids: list[str], reset: bool, cause: Cause = BY_OPERATOR
    ) -> int:
        """Put dead letters of one stream back into it; returns how many.

        Those that were given up stay dead.
        """
        found = await self._members(session, ids)
        if not any(map(can_return, found)):
            return 0
        stream, counter = await heads.opened(session, self._namespace, found[0].stream)
        # Read again: with the stream locked, no one else can put them back.
        dead = list(filter(can_return, await self._members(session, ids)))
        placed = await self._placed(session, stream, dead, counter)
        rows = await session.fetch(
            "queue.raise",
            ids=[each.id for each in placed],
            lane=stream.lane,
            reset=reset,
            **cause.parameters,
        )
        raised = {row[0] for row in rows}
        await self._rejoin(session, stream, [each for each in placed if each.id in raised])
        return len(raised)

    async def _rejoin(
        self, session: Session, stream: StreamRow, returned: Sequence[Member]
    ) -> None:
        """Update the stream's lane for the deliveries put back, given in order of position."""
        if not returned:
            return
        match comes_back(stream, returned):
            case Return.REPLAYED:
                await session.fetch("queue.replay", lane=stream.lane, position=returned[0].position)
            case Return.LEADS:
                moment = await heads.now(session, self._namespace)
                await heads.lead(
                    session, stream, _beginning(stream, returned[0]), moment, returned[0].id
                )

    async def _placed(
        self, session: Session, stream: StreamRow, members: Sequence[Member], counter: int
    ) -> list[Member]:
        """Members at their old positions, or at new ones if others have these by now.

        That happens if the stream was pruned and started again meanwhile.
        """
        if not members:
            return []
        last = max(counter, members[-1].position)
        taken = await self._taken(session, stream, members)
        placed = []
        for member in members:
            if member.position in taken:
                last += 1
                await session.fetch("queue.place", id=member.id, position=last)
                placed.append(msgspec.structs.replace(member, position=last))
            else:
                taken.add(member.position)
                placed.append(member)
        if last > counter:
            await heads.opened(session, self._namespace, stream.name, last)
        return sorted(placed, key=lambda each: each.position)

    async def _taken(
        self, session: Session, stream: StreamRow, members: Sequence[Member]
    ) -> set[int]:
        rows = await session.fetch(
            "queue.taken",
            lane=stream.lane,
            positions=[each.position for each in members],
            ids=[each.id for each in members],
        )
        return {row[0] for row in rows}

    async def discard(self, session: Session, id: str, note: str) -> bool:
        """Cancel a dead letter; if it blocked its stream, the stream continues."""
        found = await self._locked(session, id)
        if found is None or not is_dead(found[1]):
            return False
        change = discard(*found, note)
        if change is None:
            return bool(await session.fetch("queue.discard", id=id, note=note))
        return await heads.write(session, change, await heads.now(session, self._namespace))

    async def among(self, session: Session, ids: list[str]) -> list[str]:
        """Those of the deliveries that have a position in a stream, in order of position."""
        return [each.id for each in await self._members(session, ids)]

    async def lock(self, session: Session, stream: str) -> None:
        """Lock a stream, so that nobody else moves its deliveries until the transaction ends."""
        await heads.locked(session, self._namespace, stream)

    async def give_up(self, session: Session, id: str, cause: Cause) -> bool:
        """Give up a dead letter; if it blocked its stream, the stream continues.

        Its stream may be gone, because idle streams are pruned before dead letters.
        """
        found = await self._locked(session, id)
        await session.fetch("dead_letters.wait", id=id, namespace=self._namespace, in_stream=True)
        rows = await session.fetch(
            "dead_letters.dispose",
            ids=[id],
            namespace=self._namespace,
            disposition=Disposition.GIVEN_UP,
            **cause.parameters,
        )
        change = give_up(*found) if rows and found is not None else None
        if change is not None:
            await heads.write(session, change, await heads.now(session, self._namespace))
        return bool(rows)


def _beginning(stream: StreamRow, member: Member) -> int:
    """The stream's first position after this delivery was put back."""
    return member.position if stream.position is None else min(stream.beginning, member.position)


def _is_processing(stream: StreamRow, member: Member) -> bool:
    return stream.token is not None and stream.head == member.id


async def _in_run(session: Session, stream: StreamRow, member: Member) -> bool:
    """Whether the worker that holds the lane may have claimed this delivery in its run."""
    if stream.token is None or stream.position is None:
        return False
    if stream.replay_from is not None:
        # A delivery was put back meanwhile, so positions do not show what was claimed.
        return True
    rows = await session.fetch(
        "queue.before",
        lane=stream.lane,
        since=stream.position,
        position=member.position,
        limit=LONGEST_RUN,
    )
    return bool(rows[0][0] < LONGEST_RUN)
