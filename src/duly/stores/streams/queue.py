"""Streams on the hot path: the queue of a lane, claimed in runs and advanced by settlements.

The ledger stores the position of each delivery; the lane's row only refers to the head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from duly.domain.checks import EARLIEST
from duly.domain.deliveries.delivery import Claimed, Lane
from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.streams.policy import Move, move, policy_of
from duly.records.stream import Policy
from duly.stores.database import Session

LONGEST_RUN = 32
FAILURES = (Verdict.RETRY, Verdict.DEAD)


def is_usual(settlement: Settlement) -> bool:
    """Whether only the completion has to be written."""
    return settlement.verdict in (Verdict.COMPLETED, Verdict.EMPTIED)


def in_runs(claimed: Sequence[Claimed], asked: Collection[int]) -> list[Claimed]:
    """Group the deliveries of each stream: the head, and those that may follow it at once.

    A run ends before the first delivery that is not due yet or has another target. If the head is
    such a delivery, it was added to an empty lane that still shows the values of its previous head:
    nothing runs, and the lane is corrected.
    """
    unordered = [each for each in claimed if each.position is None]
    if len(unordered) == len(claimed):
        return unordered
    heads: dict[Lane, Claimed] = {}
    found: list[Claimed] = []
    ended: set[Lane] = set()
    for each in sorted(claimed, key=_position):
        head = heads.get(each.lane)
        if each.position is None or head is None:
            if each.position is not None and each.id is not None and _is_misplaced(each, asked):
                each.id, each.position = None, each.position - 1  # type: ignore[assignment]
                ended.add(each.lane)
            if each.ready_at is None:
                # A lane without a delivery is returned without its due time.
                each.ready_at = EARLIEST
            heads[each.lane] = each
            found.append(each)
        elif each.ready_at is None or each.target != head.target:
            ended.add(each.lane)
        elif each.lane not in ended:
            head.followers = [*(head.followers or ()), each]
    return found


def _is_misplaced(head: Claimed, asked: Collection[int]) -> bool:
    return head.ready_at is None or head.target not in asked


def _position(claimed: Claimed) -> int:
    return claimed.position or 0


async def advance(
    session: Session, settlements: Sequence[Settlement]
) -> tuple[set[Lane], list[Settlement], set[Lane]]:
    """Advance streams; returns the lanes to which that applied, and what is still to be settled.

    Deliveries that leave the stream's queue are settled in a separate lane each, those that stay
    in the stream's lane. Also returns the lanes that a failure blocks for a limited time.
    """
    last = _without_followers(settlements)
    finished = await _finish(session, last) if last else set()
    settlements = [each for each in settlements if (each.lane, each.token) not in finished]
    if not settlements:
        return {lane for lane, _ in finished}, [], set()
    moves, limited = await _moves(session, settlements)
    moving = [
        (each, kind) for each, kind in zip(settlements, moves, strict=True) if kind is not Move.STAY
    ]
    moved = await _move(session, moving) if moving else set()
    applied = {lane for lane, _ in moved | finished}
    leaving = [
        each
        for each, kind in moving
        if kind in (Move.LEAVE, Move.BLOCK) and (each.lane, each.token) in moved
    ]
    staying = [each for each, kind in zip(settlements, moves, strict=True) if kind is Move.STAY]
    return applied, [*staying, *await _in_separate_lanes(session, leaving)], limited


def _without_followers(settlements: Sequence[Settlement]) -> list[Settlement]:
    """Settlements behind which probably nothing waits: alone in their lane, without a follower."""
    lane_counts = Counter(each.lane for each in settlements)
    return [
        each
        for each in settlements
        if each.verdict is Verdict.COMPLETED
        and each.follower is None
        and lane_counts[each.lane] == 1
    ]


async def _finish(session: Session, last: Sequence[Settlement]) -> set[tuple[Lane, int]]:
    answers = _answers(last)
    more: dict[str, list[Any]] = {"position": [each.position for each in last], "answer": answers}
    return await end(session, "streams.finish", last, more, answered=any(answers))


def _answers(settlements: Iterable[Settlement]) -> list[str | None]:
    return [each.answer for each in settlements]


async def end(
    session: Session,
    statement: str,
    settlements: Sequence[Settlement],
    more: Mapping[str, list[Any]],
    **parameters: Any,
) -> set[tuple[Lane, int]]:
    """End lanes by a statement that returns the refused ones; returns the others."""
    columns: dict[str, list[Any]] = {
        "lane": [each.lane for each in settlements],
        "token": [each.token for each in settlements],
        "started_us": [each.started_us for each in settlements],
        "finished_us": [each.finished_us for each in settlements],
        **more,
    }
    rows = await session.fetch_batch(statement, "settle", columns=columns, **parameters)
    refused = {(lane, token) for lane, token in rows}
    return {(each.lane, each.token) for each in settlements} - refused


async def _moves(
    session: Session, settlements: Sequence[Settlement]
) -> tuple[list[Move], set[Lane]]:
    """The move of each, and the lanes whose failed head stays there for a limited time."""
    failed = {
        each.lane
        for each in settlements
        if each.verdict in FAILURES and each.on_failure != Policy.RELEASE
    }
    policies: Mapping[Lane, Policy] = {}
    limited: set[Lane] = set()
    if failed:
        rows = await session.fetch("streams.policies", "settle", lanes=list(failed))
        policies = {lane: policy_of(name, configured) for lane, name, configured, _ in rows}
        limited = {lane for lane, *_, block_for in rows if block_for is not None}
    moves = [
        move(each.verdict, Policy(each.on_failure or policies.get(each.lane, Policy.BLOCK)))
        for each in settlements
    ]
    return moves, limited


async def _move(
    session: Session, moving: Sequence[tuple[Settlement, Move]]
) -> set[tuple[Lane, int]]:
    left = await _refused(session, moving)
    if left:
        # These streams may have been changed at the same moment. Within a transaction that cannot
        # happen after their lanes are locked: a lane that is refused then is no longer held.
        await session.fetch("streams.hold", "settle", lanes=[each.lane for each, _ in left])
        left = await _refused(session, left)
    lost = {(each.lane, each.token) for each, _ in left}
    return {(each.lane, each.token) for each, _ in moving} - lost


async def _refused(
    session: Session, moving: Sequence[tuple[Settlement, Move]]
) -> Sequence[tuple[Settlement, Move]]:
    columns = _columns(moving)
    rows = await session.fetch_batch(
        "streams.advance", "settle", columns=columns, answered=any(columns["answer"])
    )
    refused = {(lane, token) for lane, token in rows}
    return [each for each in moving if (each[0].lane, each[0].token) in refused]


def _columns(moving: Sequence[tuple[Settlement, Move]]) -> dict[str, list[Any]]:
    last = {(each.lane, each.token): index for index, (each, _) in enumerate(moving)}
    settlements = [each for each, _ in moving]
    return {
        "lane": [each.lane for each in settlements],
        "token": [each.token for each in settlements],
        "delivery": [each.delivery for each in settlements],
        "position": [each.position for each in settlements],
        "started_us": [each.started_us for each in settlements],
        "finished_us": [each.finished_us for each in settlements],
        # Usually all null, and such a column is not sent.
        "apart": [None if kind is Move.COMPLETE else True for _, kind in moving],
        "blocks": [True if kind is Move.BLOCK else None for _, kind in moving],
        "follower": [each.follower and each.follower[0] for each in settlements],
        "follower_position": [each.follower and each.follower[1] for each in settlements],
        "more": [
            None if last[each.lane, each.token] == index else True
            for index, each in enumerate(settlements)
        ],
        # Deliveries that leave the queue are settled afterwards, with their answers.
        "answer": _answers(settlements),
    }


async def _in_separate_lanes(session: Session, leaving: Sequence[Settlement]) -> list[Settlement]:
    if not leaving:
        return []
    ids = [each.delivery for each in leaving]
    rows = await session.fetch("streams.own_lanes", "settle", ids=ids)
    lanes: dict[str, Lane] = {row[0]: row[1] for row in rows}
    return [
        msgspec.structs.replace(each, lane=lanes[each.delivery], position=None) for each in leaving
    ]
