"""Dead letters: found by a filter, and retried, edited or discarded singly or in short batches.

A batch of dead letters without a stream is one statement. Those of one stream are retried together,
in the order of their positions and with the stream locked, so that none overtakes an earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from itertools import groupby
from typing import Any, assert_never

import msgspec

from duly.domain.checks import EARLIEST, LATEST
from duly.domain.dead_letters import LOOKED_AT, Suspect, not_dead
from duly.failpoints import hit
from duly.ports import (
    BulkCursor,
    Cause,
    DeadLetterMove,
    Discard,
    GiveUp,
    Hold,
    Release,
    Retry,
)
from duly.records.dead_letter import DeadLetterFilter, DeadLetterGroup
from duly.records.delivery import Delivery
from duly.records.recovery import Disposition
from duly.stores.access.audit import note as note_down
from duly.stores.database import Database, Row, Session
from duly.stores.deliveries.ledger import Deliveries
from duly.stores.deliveries.maintenance import BEGINNING, END
from duly.stores.deliveries.revived import retry_one, retry_some
from duly.stores.deliveries.rows import delivery_of
from duly.stores.streams.members import Members

KNOWN_TO_GROUPS = {"fingerprint", "reason", "target", "since"}
"""The filter fields that the index of groups contains; others need the dead letters themselves."""


class DeadLetters:
    """The dead letters of one namespace."""

    def __init__(
        self, database: Database, namespace: str, deliveries: Deliveries, members: Members
    ) -> None:
        self._database = database
        self._namespace = namespace
        self._deliveries = deliveries
        self._members = members

    async def page(
        self, filter: DeadLetterFilter, before: tuple[datetime, str] | None, limit: int
    ) -> list[Delivery]:
        """Dead letters, newest first; `before` is the `dead_at` and id to continue from."""
        at, id = before or (LATEST, END)
        rows = await self._database.fetch_named(
            "dead_letters.page", **self._parameters(filter), before_at=at, before=id, limit=limit
        )
        return [delivery_of(row) for row in rows]

    async def floor(self, before: tuple[datetime, str] | None, most: int) -> datetime | None:
        """`dead_at` of the dead letter with `most` newer ones, or None if there are fewer."""
        at, id = before or (LATEST, END)
        rows = await self._database.fetch_named(
            "dead_letters.floor", namespace=self._namespace, before_at=at, before=id, most=most
        )
        dead_at: datetime | None = rows[0]["dead_at"] if rows else None
        return dead_at

    async def groups(self, filter: DeadLetterFilter, limit: int) -> list[DeadLetterGroup]:
        """Dead letters grouped by similar errors, the largest group first."""
        used = {name for name, value in msgspec.structs.asdict(filter).items() if value}
        parameters, statement = self._parameters(filter), "groups"
        if not used <= KNOWN_TO_GROUPS:
            statement = "groups_among"
            parameters["since"] = max(
                parameters["since"], await self.floor(None, LOOKED_AT) or EARLIEST
            )
        rows = await self._database.fetch_named(
            f"dead_letters.{statement}", **parameters, limit=limit
        )
        return [_group(dict(row)) for row in rows]

    async def count(self, filter: DeadLetterFilter) -> int:
        """The number of dead letters that match."""
        rows = await self._database.fetch_named("dead_letters.count", **self._parameters(filter))
        return int(rows[0]["many"])

    async def suspects(self, limit: int, *, failed: bool) -> list[Suspect]:
        """Unfinished deliveries whose workers died, with `failed` also those that failed.

        Those with the most crashes or failures come first.
        """
        rows = await self._database.fetch_named(
            f"dead_letters.{'suspects' if failed else 'crashed'}",
            namespace=self._namespace,
            limit=limit,
        )
        return [Suspect(**row) for row in rows]

    async def retry(self, id: str, actor: str, *, reset: bool) -> Delivery:
        """Make one pending again, in a stream at its position; Conflict if it is not dead."""
        async with self._database.together() as session:
            await self._wait(session, id)
            moved = await self._retry(session, id, reset)
            if moved:
                await self._note(
                    session, actor, "dead_letter.retried", id, {"reset_attempts": reset}
                )
        return await self._result(id, moved, "retried")

    async def edit(self, id: str, payload: bytes, actor: str) -> Delivery:
        """Retry one with another payload and a new count of attempts; Conflict if not dead."""
        async with self._database.together() as session:
            await self._wait(session, id)
            moved = await self._retry(session, id, True)
            if moved:
                rows = await session.fetch("dead_letters.edit", id=id, payload=payload)
                detail = {"before": _digest(rows[0][0]), "after": _digest(payload)}
                await self._note(session, actor, "dead_letter.edited", id, detail)
        return await self._result(id, moved, "edited")

    async def discard(self, id: str, note: str, actor: str) -> Delivery:
        """Cancel one, which unblocks its stream; Conflict if it is not dead."""
        async with self._database.together() as session:
            await self._wait(session, id)
            moved = bool(await self._discard_unordered(session, [id], note))
            moved = moved or await self._members.discard(session, id, note)
            if moved:
                await self._note(session, actor, "dead_letter.discarded", id, {"note": note})
        return await self._result(id, moved, "discarded")

    async def dispose(self, id: str, move: Hold | Release | GiveUp, actor: str) -> Delivery:
        """Hold one, release it, or give it up; Conflict if its state does not allow that.

        Repeating it changes nothing.
        """
        verb = VERBS[type(move)]
        async with self._database.together() as session:
            await self._wait(session, id, in_stream=not isinstance(move, GiveUp))
            moved = bool(await self._disposed(session, [id], move))
            if moved:
                detail = msgspec.structs.asdict(move)
                await self._note(session, actor, f"dead_letter.{verb}", id, detail or None)
        delivery = await self._deliveries.get(id)
        if moved or (delivery.dead_at is not None and _is_done(delivery, move)):
            return delivery
        raise not_dead(delivery, verb.replace("_", " "))

    async def _disposed(
        self, session: Session, ids: list[str], move: Hold | Release | GiveUp
    ) -> set[str]:
        """Change the dispositions of some; returns which were changed."""
        match move:
            case Hold():
                return await dispose(
                    session, self._namespace, ids, Disposition.HELD, Cause("operator", move.note)
                )
            case Release():
                rows = await session.fetch(
                    "dead_letters.let_go", ids=ids, namespace=self._namespace
                )
                return {row[0] for row in rows}
            case GiveUp():
                return await give_up(
                    session, self._namespace, self._members, ids, Cause("operator", move.note)
                )
            case _:
                assert_never(move)

    async def _wait(self, session: Session, id: str, *, in_stream: bool = False) -> None:
        """Lock a dead letter that a worker or a bulk operation may have locked.

        Without `in_stream` only if it has no position in a stream: its stream is locked first.
        """
        await session.fetch(
            "dead_letters.wait", id=id, namespace=self._namespace, in_stream=in_stream
        )

    async def _result(self, id: str, moved: bool, verb: str) -> Delivery:
        delivery = await self._deliveries.get(id)
        if not moved:
            raise not_dead(delivery, verb)
        return delivery

    async def _retry(self, session: Session, id: str, reset: bool) -> bool:
        moved = await retry_one(session, self._namespace, id, Retry(reset))
        return moved or bool(await self._members.bring_back(session, [id], reset))

    async def _note(
        self, session: Session, actor: str, action: str, subject: str, detail: Any
    ) -> None:
        await note_down(session, self._namespace, actor, action, subject, detail)

    async def begin(self, action: str, filter: DeadLetterFilter, actor: str, detail: Any) -> None:
        """Write an audit entry for a bulk operation on all dead letters that match."""
        entry = {"filter": msgspec.to_builtins(filter), **detail}
        await self._note(self._database, actor, f"dead_letters.{action}", "all that match", entry)

    async def move(
        self, filter: DeadLetterFilter, move: DeadLetterMove, after: BulkCursor, limit: int
    ) -> tuple[int, BulkCursor | None]:
        """Move one batch of those that match.

        Returns how many were moved, and the cursor of the next batch, None at the end.
        """
        if after.stream is None:
            rows = await self._database.fetch(
                "dead_letters.apart",
                **self._parameters(filter),
                after_at=after.at or EARLIEST,
                after=after.id or BEGINNING,
                limit=limit,
            )
            if rows:
                moved = await self._move_unordered([row[0] for row in rows], move)
                return moved, BulkCursor(id=rows[-1][0], at=rows[-1][1])
        rows = await self._database.fetch(
            "dead_letters.in_line",
            **self._parameters(filter),
            after_stream=after.stream or "",
            after_position=after.position,
            after=after.id or BEGINNING,
            limit=limit,
        )
        if not rows:
            return 0, None
        moved = await self._move_ordered(rows, move)
        return moved, BulkCursor(id=rows[-1][0], stream=rows[-1][1], position=rows[-1][2])

    async def _move_unordered(self, ids: list[str], move: DeadLetterMove) -> int:
        match move:
            case Retry():
                await hit("retry.before")
                async with self._database.together() as session:
                    moved, _ = await retry_some(session, self._namespace, ids, move)
                await hit("retry.after")
                return len(moved)
            case Discard():
                return len(await self._discard_unordered(self._database, ids, move.note))
            case Hold() | Release() | GiveUp():
                return await self._dispose_some(ids, move)
            case _:
                assert_never(move)

    async def _dispose_some(self, ids: list[str], move: Hold | Release | GiveUp) -> int:
        async with self._database.together() as session:
            return len(await self._disposed(session, ids, move))

    async def _move_ordered(self, rows: Sequence[Row], move: DeadLetterMove) -> int:
        moved = 0
        for _, group in groupby(rows, lambda row: row[1]):
            ids = [row[0] for row in group]
            match move:
                case Retry():
                    moved += await self._bring_back(ids, move)
                case Discard():
                    moved += await self._discard_ordered(ids, move.note)
                case Hold() | Release() | GiveUp():
                    moved += await self._dispose_some(ids, move)
                case _:
                    assert_never(move)
        return moved

    async def _bring_back(self, ids: list[str], retry: Retry) -> int:
        await hit("retry.before")
        async with self._database.together() as session:
            moved = await self._members.bring_back(session, ids, retry.reset)
        await hit("retry.after")
        return moved

    async def _discard_ordered(self, ids: list[str], note: str) -> int:
        discarded = await self._discard_unordered(self._database, ids, note)
        for id in ids:
            if id not in discarded:
                async with self._database.together() as session:
                    if await self._members.discard(session, id, note):
                        discarded.add(id)
        return len(discarded)

    async def _discard_unordered(self, session: Session, ids: list[str], note: str) -> set[str]:
        rows = await session.fetch(
            "dead_letters.discard", "any", ids=ids, namespace=self._namespace, note=note
        )
        return {row[0] for row in rows}

    def _parameters(self, filter: DeadLetterFilter) -> dict[str, Any]:
        return msgspec.structs.asdict(filter) | {
            "namespace": self._namespace,
            "since": filter.since or EARLIEST,
            "ids": list(filter.ids) or None,
        }


async def dispose(
    session: Session, namespace: str, ids: list[str], disposition: Disposition, cause: Cause
) -> set[str]:
    """Hold dead letters, or give up those outside of streams; returns which were changed."""
    rows = await session.fetch(
        "dead_letters.dispose",
        ids=ids,
        namespace=namespace,
        disposition=disposition,
        **cause.parameters,
    )
    return {row[0] for row in rows}


async def give_up(
    session: Session, namespace: str, members: Members, ids: list[str], cause: Cause
) -> set[str]:
    """Give up dead letters, which unblocks their streams; returns which were changed."""
    in_streams = await members.among(session, ids)
    changed = {id for id in in_streams if await members.give_up(session, id, cause)}
    apart = [id for id in ids if id not in in_streams]
    return changed | await dispose(session, namespace, apart, Disposition.GIVEN_UP, cause)


VERBS = {Hold: "held", Release: "released", GiveUp: "given_up"}


def _is_done(delivery: Delivery, move: Hold | Release | GiveUp) -> bool:
    """Whether an operation was done before."""
    if isinstance(move, Release):
        return delivery.disposition not in (Disposition.HELD, Disposition.GIVEN_UP)
    return delivery.disposition == VERBS[type(move)]


def _group(row: dict[str, Any]) -> DeadLetterGroup:
    targets: list[str] = sorted(msgspec.json.decode(row.pop("targets")))
    return DeadLetterGroup(count=row.pop("many"), targets=targets, **row)


def _digest(payload: bytes) -> dict[str, Any]:
    return {"bytes": len(payload), "sha256": sha256(payload).hexdigest()}
