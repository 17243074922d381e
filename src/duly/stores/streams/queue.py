"""Streams on the hot path: the line that waits in a lane, claimed in runs and moved on at each end.

Who stands where is in the ledger (lane and position); the lane's own row only knows its head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from duly.domain.checks import EARLIEST
from duly.domain.deliveries.delivery import Claimed, Lane
from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.streams.policy import Move, Policy, move, policy_of
from duly.stores.database import Session

LONGEST_RUN = 32


def is_usual(settlement: Settlement) -> bool:
    """Whether there is nothing to write but that it is completed."""
    plain = settlement.verdict in (Verdict.COMPLETED, Verdict.EMPTIED)
    return plain and settlement.answer is None


def in_runs(claimed: Sequence[Claimed], asked: Collection[int]) -> list[Claimed]:
    """Those of one stream together: the head, and behind it whoever may follow at once.

    A run ends before the first that is not due yet, or goes elsewhere. A head like that came to
    an empty lane, which still shows who was there last: nothing runs, and the lane is put right.
    """
    heads: dict[Lane, Claimed] = {}
    found: list[Claimed] = []
    ended: set[Lane] = set()
    for each in sorted(claimed, key=_place) if any(_in_line(each) for each in claimed) else claimed:
        head = heads.get(each.lane)
        if not _in_line(each) or head is None:
            if _in_line(each) and each.id is not None and _is_misplaced(each, asked):
                each.id, each.position = None, each.position - 1  # type: ignore[assignment,operator]
                ended.add(each.lane)
            if each.ready_at is None:
                # Nobody: when its lane was due is not told then.
                each.ready_at = EARLIEST
            heads[each.lane] = each
            found.append(each)
        elif each.ready_at is None or each.target != head.target:
            ended.add(each.lane)
        elif each.lane not in ended:
            head.followers = [*(head.followers or ()), each]
    return found


def _in_line(claimed: Claimed) -> bool:
    return claimed.position is not None


def _is_misplaced(head: Claimed, asked: Collection[int]) -> bool:
    return head.ready_at is None or head.target not in asked


def _place(claimed: Claimed) -> int:
    return claimed.position or 0


async def advance(
    session: Session, settlements: Sequence[Settlement]
) -> tuple[set[Lane], list[Settlement]]:
    """Move lines on; returns the lanes to which that applied, and what is still to be settled.

    Those who leave the line are settled in a lane of their own, those who stay in the stream's.
    """
    last = _last_in_line(settlements)
    finished = await _finish(session, last) if last else set()
    settlements = [each for each in settlements if (each.lane, each.token) not in finished]
    if not settlements:
        return {lane for lane, _ in finished}, []
    moves = await _moves(session, settlements)
    going = [
        (each, how) for each, how in zip(settlements, moves, strict=True) if how is not Move.STAY
    ]
    moved = await _move(session, going) if going else set()
    applied = {lane for lane, _ in moved | finished}
    leaving = [
        each
        for each, how in going
        if how in (Move.LEAVE, Move.BLOCK) and (each.lane, each.token) in moved
    ]
    staying = [each for each, how in zip(settlements, moves, strict=True) if how is Move.STAY]
    return applied, [*staying, *await _apart(session, leaving)]


def _last_in_line(settlements: Sequence[Settlement]) -> list[Settlement]:
    """Those behind whom probably nobody waits: each ended its run, by itself."""
    many = Counter(each.lane for each in settlements)
    return [
        each
        for each in settlements
        if each.verdict is Verdict.COMPLETED
        and each.answer is None
        and each.follower is None
        and many[each.lane] == 1
    ]


async def _finish(session: Session, last: Sequence[Settlement]) -> set[tuple[Lane, int]]:
    positions = {"position": [each.position for each in last]}
    return await end(session, "streams.finish", last, positions)


async def end(
    session: Session,
    statement: str,
    settlements: Sequence[Settlement],
    more: Mapping[str, list[Any]],
    **parameters: Any,
) -> set[tuple[Lane, int]]:
    """Have lanes ended by a statement that tells those it refused; returns the others."""
    columns: dict[str, list[Any]] = {
        "lane": [each.lane for each in settlements],
        "token": [each.token for each in settlements],
        "started_at": [each.started_at for each in settlements],
        "finished_at": [each.finished_at for each in settlements],
        **more,
    }
    rows = await session.fetch_batch(statement, "settle", columns=columns, **parameters)
    refused = {(lane, token) for lane, token in rows}
    return {(each.lane, each.token) for each in settlements} - refused


async def _moves(session: Session, settlements: Sequence[Settlement]) -> list[Move]:
    failed = {
        each.lane
        for each in settlements
        if each.verdict in (Verdict.RETRY, Verdict.DEAD) and each.on_failure is None
    }
    policies: Mapping[Lane, Policy] = {}
    if failed:
        rows = await session.fetch("streams.policies", "settle", lanes=list(failed))
        policies = {lane: policy_of(name, configured) for lane, name, configured in rows}
    return [
        move(
            each.verdict,
            Policy(each.on_failure or policies.get(each.lane, Policy.BLOCK)),
            plain=each.answer is None,
        )
        for each in settlements
    ]


async def _move(
    session: Session, going: Sequence[tuple[Settlement, Move]]
) -> set[tuple[Lane, int]]:
    left = await _refused(session, going)
    if left:
        # Somebody may have changed these lines at the same moment. In a transaction, nobody can
        # once their lanes are locked: what is refused then is not ours.
        await session.fetch("streams.hold", "settle", lanes=[each.lane for each, _ in left])
        left = await _refused(session, left)
    lost = {(each.lane, each.token) for each, _ in left}
    return {(each.lane, each.token) for each, _ in going} - lost


async def _refused(
    session: Session, going: Sequence[tuple[Settlement, Move]]
) -> Sequence[tuple[Settlement, Move]]:
    rows = await session.fetch_batch("streams.advance", "settle", columns=_columns(going))
    refused = {(lane, token) for lane, token in rows}
    return [each for each in going if (each[0].lane, each[0].token) in refused]


def _columns(going: Sequence[tuple[Settlement, Move]]) -> dict[str, list[Any]]:
    last = {(each.lane, each.token): index for index, (each, _) in enumerate(going)}
    settlements = [each for each, _ in going]
    return {
        "lane": [each.lane for each in settlements],
        "token": [each.token for each in settlements],
        "delivery": [each.delivery for each in settlements],
        "position": [each.position for each in settlements],
        "started_at": [each.started_at for each in settlements],
        "finished_at": [each.finished_at for each in settlements],
        # Mostly nothing but nulls, which need not be sent.
        "apart": [None if how is Move.COMPLETE else True for _, how in going],
        "blocks": [True if how is Move.BLOCK else None for _, how in going],
        "follower": [each.follower and each.follower[0] for each in settlements],
        "follower_position": [each.follower and each.follower[1] for each in settlements],
        "more": [
            None if last[each.lane, each.token] == index else True
            for index, each in enumerate(settlements)
        ],
    }


async def _apart(session: Session, leaving: Sequence[Settlement]) -> list[Settlement]:
    if not leaving:
        return []
    ids = [each.delivery for each in leaving]
    rows = await session.fetch("streams.own_lanes", "settle", ids=ids)
    lanes: dict[str, Lane] = {row[0]: row[1] for row in rows}
    return [
        msgspec.structs.replace(each, lane=lanes[each.delivery], position=None) for each in leaving
    ]
