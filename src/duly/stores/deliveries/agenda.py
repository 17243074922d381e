"""The lanes that have work: surveyed, claimed, settled and released."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from itertools import starmap

from duly.domain.checks import EARLIEST
from duly.domain.deliveries.delivery import Claimed, Lane
from duly.domain.deliveries.identifiers import worker_of
from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.errors import SettlementRefused
from duly.failpoints import hit
from duly.ports import ClaimableGroup, ClaimRequest, LateWork, LimitedBlock
from duly.stores import unique_keys
from duly.stores.database import Database, Row, Session
from duly.stores.deliveries.steps import record_with
from duly.stores.streams import queue
from duly.stores.streams.queue import is_usual

COUNTED_UP_TO = 1_000_000


class Agenda:
    """The lanes of some namespaces, or of all.

    Each method is one statement and one commit; `settle` is two if outcomes are mixed.
    """

    def __init__(self, database: Database, served: Sequence[str] | None) -> None:
        self._database = database
        self._served = None if served is None else list(served)

    async def survey(self) -> list[ClaimableGroup]:
        """Each priority and target that has lanes not held, with its first due time."""
        rows = await self._database.fetch("agenda.survey", "claim", served=self._served)
        return [ClaimableGroup(*row) for row in rows]

    async def look(self) -> list[ClaimableGroup]:
        """As `survey`, for callers that do not claim: on SQLite it does not wait for the writer."""
        rows = await self._database.fetch_named("agenda.survey", served=self._served)
        return [ClaimableGroup(**row) for row in rows]

    async def late_work(
        self, grace: timedelta, targets: Collection[int] | None = None
    ) -> LateWork | None:
        """How many lanes, of these targets or all, are due for longer than `grace` and not held."""
        rows = await self._database.fetch_named(
            "agenda.late_work",
            "plan",
            served=self._served,
            grace=grace.total_seconds(),
            targets=None if targets is None else list(targets),
            most=COUNTED_UP_TO,
        )
        count, oldest = rows[0]["count"], rows[0]["oldest_at"]
        return LateWork(count, oldest) if count else None

    async def claim(
        self, token: int, slots: int, asks: Sequence[ClaimRequest], finished: Sequence[int] = ()
    ) -> list[Claimed]:
        """Claim at most `slots` due lanes under the token; atomic, skips lanes that others hold.

        The most urgent come first. `finished` are earlier tokens under which nothing is held any
        more.
        """
        await hit("claim.before")
        rows = await self._database.fetch_batch(
            "agenda.claim",
            "claim",
            columns={
                "priority": [ask.priority for ask in asks],
                "target": [ask.target for ask in asks],
                "floor_at": [ask.floor_at for ask in asks],
                "quota": [ask.quota for ask in asks],
            },
            worker=worker_of(token),
            token=token,
            slots=slots,
            finished=list(finished),
            run=queue.LONGEST_RUN,
        )
        await hit("claim.after")
        found = queue.in_runs(claimed_of(rows), {ask.target for ask in asks})
        if len({ask.priority for ask in asks}) > 1:
            # Neither database guarantees the order of the rows that an update returns.
            found.sort(key=_urgency)
        return found

    async def settle(self, settlements: Sequence[Settlement]) -> set[Lane]:
        """Write the outcomes of held lanes; returns the lanes to which they applied.

        Completions and the rest are one statement each, so a crash between them loses the rest:
        those lanes stay held and are reclaimed. A batch with steps, with a unique key, or with a
        delivery that may leave its stream's queue, is one transaction.
        """
        await hit("settle.before")
        unusual = _unusual(settlements)
        try:
            if settlements and not unusual:
                applied = await _complete(self._database, settlements)
            elif any(
                each.steps
                or each.unique_key is not None
                or (each.position is not None and not is_usual(each))
                for each in unusual
            ):
                async with self._database.together("settle") as session:
                    applied = await settle_together(session, settlements)
            else:
                applied = await settle(self._database, settlements)
                applied |= await self._settle_again(settlements, applied)
        except self._database.refusals as error:
            raise SettlementRefused(str(error)) from error
        await hit("settle.after")
        return applied

    async def _settle_again(
        self, settlements: Sequence[Settlement], applied: Collection[Lane]
    ) -> set[Lane]:
        """Settle refused heads of streams once more, with their lanes locked."""
        refused = [
            each for each in settlements if each.position is not None and each.lane not in applied
        ]
        if not refused:
            return set()
        async with self._database.together("settle") as session:
            return await settle(session, refused)

    async def release(self, token: int) -> int:
        """Release, without an attempt, all lanes held under the token; returns how many."""
        async with self._database.together("claim") as session:
            rows = await session.fetch("agenda.release", "claim", token=token)
            await unique_keys.tidy_freed(session, [row[0] for row in rows])
        return len(rows)

    async def held_by_dead(self, limit: int) -> list[Claimed]:
        """Deliveries held by dead workers, with the tokens under which they are held."""
        return claimed_of(await self._database.fetch("agenda.held_by_dead", "any", limit=limit))

    async def limited_blocks(self, limit: int) -> list[LimitedBlock]:
        """Streams that a failed head blocks for a limited time, those that end first."""
        rows = await self._database.fetch("queue.limited", "any", served=self._served, limit=limit)
        return [LimitedBlock(*row) for row in rows]


def _unusual(settlements: Sequence[Settlement]) -> list[Settlement]:
    """Those that are more than the completion of an unordered delivery; mostly none."""
    return [
        each
        for each in settlements
        if each.verdict is not Verdict.COMPLETED
        or each.position is not None
        or each.unique_key is not None
        or each.steps
    ]


async def settle_together(session: Session, settlements: Sequence[Settlement]) -> set[Lane]:
    """Settle in a transaction, and record the steps of the settlements in it."""
    await record_with(session, settlements)
    return await settle(session, settlements)


async def settle(session: Session, settlements: Sequence[Settlement]) -> set[Lane]:
    """Settle in the given session; it is a transaction if a delivery has a unique key."""
    keys = {(each.target, each.unique_key) for each in settlements if each.unique_key is not None}
    if not keys:
        return await _settle_all(session, settlements)
    locked = await unique_keys.try_lock(session, keys)
    applied = await _settle_all(session, settlements)
    await hit("settle.middle")
    await unique_keys.tidy(session, locked)
    await unique_keys.note_locked(session, keys - locked)
    return applied


async def _settle_all(session: Session, settlements: Sequence[Settlement]) -> set[Lane]:
    ordered = [each for each in settlements if each.position is not None]
    if not ordered:
        return await _settle_plain(session, settlements)
    applied, rest, limited = await queue.advance(session, ordered)
    unordered = [each for each in settlements if each.position is None]
    if unordered or rest:
        applied |= await _settle_plain(session, [*unordered, *rest])
    if lanes := limited & applied:
        # Before `stay`, which may make another delivery the head.
        await session.fetch("streams.limit", "settle", lanes=list(lanes))
    if staying := [each.lane for each in rest if each.position is not None]:
        await session.fetch("streams.stay", "settle", lanes=staying)
    return applied


async def _settle_plain(session: Session, settlements: Sequence[Settlement]) -> set[Lane]:
    completed = [each for each in settlements if each.verdict is Verdict.COMPLETED]
    applied = await _complete(session, completed) if completed else set()
    if len(completed) < len(settlements):
        rest = [each for each in settlements if each.verdict is not Verdict.COMPLETED]
        applied |= await _settle(session, rest)
    return applied


async def _complete(session: Session, settlements: Sequence[Settlement]) -> set[Lane]:
    answers = [each.answer for each in settlements]
    more = {"answer": answers}
    ended = await queue.end(session, "agenda.complete", settlements, more, answered=any(answers))
    return {lane for lane, _ in ended}


async def _settle(session: Session, settlements: Sequence[Settlement]) -> set[Lane]:
    rows = await session.fetch_batch(
        "agenda.settle",
        "settle",
        columns={
            "lane": [each.lane for each in settlements],
            "token": [each.token for each in settlements],
            "delivery": [each.delivery for each in settlements],
            "verdict": [each.verdict for each in settlements],
            "attempt": [each.attempt for each in settlements],
            "started_at": [each.started_at for each in settlements],
            "finished_at": [each.finished_at for each in settlements],
            "wait": [each.wait for each in settlements],
            "priority": [each.priority for each in settlements],
            "crashes": [each.crashes for each in settlements],
            "reason": [each.reason for each in settlements],
            "error": [each.error for each in settlements],
            "answer": [each.answer for each in settlements],
            "traceback": [each.traceback for each in settlements],
            "exception": [each.exception for each in settlements],
            "fingerprint": [each.fingerprint for each in settlements],
        },
    )
    return {row[0] for row in rows}


def _urgency(claimed: Claimed) -> tuple[int, datetime]:
    # A lane without its delivery has no priority.
    return -(claimed.priority or 0), claimed.ready_at


def claimed_of(rows: Sequence[Row]) -> list[Claimed]:
    """Claimed deliveries from their rows."""
    claimed = list(starmap(Claimed, rows))
    for each in claimed:
        # Null means: the lane of an unordered delivery has the delivery's id and due time.
        if each.lane is None:
            each.lane = each.id
        if each.ready_at is None and each.position is None:
            # A lane without a delivery is returned without any due time.
            each.ready_at = each.due_at or EARLIEST
    return claimed
