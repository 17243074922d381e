"""Claims lanes of deliveries with a fair key or a limit key, key by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from duly.domain.deliveries.delivery import LIMIT, Claimed
from duly.domain.deliveries.identifiers import worker_of
from duly.domain.endpoints.gates import AGAIN
from duly.domain.endpoints.limits import KeyUse
from duly.domain.turns import (
    KeyShare,
    Visited,
    VisitedKey,
    divide,
    is_short_ahead,
    still_ahead,
)
from duly.failpoints import hit
from duly.ports import ClaimedTurns, ClaimRequest, Round
from duly.stores.database import Database, Row
from duly.stores.deliveries.agenda import claimed_of

MOST_VISITS = 250
"""Keys that one request visits; those without anything due cost a visit too."""
AHEAD = 4
"""A visit reads the keys for so many claims: it costs half as much as a claim."""


class Turns:
    """The lanes with keys, of all namespaces.

    Keys are read by one statement, and lanes claimed by another; each is atomic. What another
    worker claims in between is left out, so that limits are never exceeded.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(
        self, token: int, slots: int, asks: Sequence[ClaimRequest], finished: Sequence[int] = ()
    ) -> ClaimedTurns:
        """Claim at most `slots` due lanes, and as many of each key as its limits allow."""
        found = await self._claim_once(token, slots, asks, finished)
        if not found.claimed and any(ask.ahead is not None for ask in asks):
            # The keys may have changed since they were read.
            anew = [msgspec.structs.replace(ask, ahead=None, now_at=None) for ask in asks]
            return await self._claim_once(token, slots, anew, finished)
        return found

    async def _claim_once(
        self, token: int, slots: int, asks: Sequence[ClaimRequest], finished: Sequence[int]
    ) -> ClaimedTurns:
        rounds: list[tuple[Round, list[KeyShare]]] = []
        wanted: list[tuple[ClaimRequest, KeyShare]] = []
        limited: set[tuple[int, str]] = set()
        for ask, found in await self._visited(asks):
            free = slots - sum(share.many for _, share in wanted)
            if free <= 0:
                break
            round, shares = _round(ask, found, min(ask.quota, free), limited)
            rounds.append((round, shares))
            wanted.extend((ask, each) for each in shares)
            limited |= {(ask.target, each.turn) for each in shares if each.version is not None}
        claimed = claimed_of(await self._claim(token, slots, wanted, finished)) if wanted else []
        if wanted and not claimed:
            # Others hold the lanes or have claimed for the keys: not a reason to ask again at once.
            none = [
                msgspec.structs.replace(each, claimed=0, ahead=None, is_full=False)
                for each, _ in rounds
            ]
            return ClaimedTurns([], none)
        if len(claimed) < sum(share.many for _, share in wanted):
            return ClaimedTurns(claimed, _after(rounds, claimed))
        return ClaimedTurns(claimed, [each for each, _ in rounds])

    async def use(self, target: int, key: str) -> tuple[KeyUse, datetime | None]:
        """How far the limits of one limit key are used, and the time."""
        rows = await self._database.fetch_named("turns.key", target=target, turn=LIMIT + key)
        if not rows:
            return KeyUse(key), None
        return KeyUse(key, rows[0]["held"], rows[0]["paced_at"]), rows[0]["seen_at"]

    async def keys(
        self, target: int, after: str, limit: int, most: int
    ) -> tuple[list[KeyUse], datetime | None]:
        """The limit keys of a target that have a row, and the time of the count."""
        rows = await self._database.fetch_named(
            "turns.keys", target=target, after=LIMIT + after, limit=limit, most=most
        )
        found = [
            KeyUse(row["turn"].removeprefix(LIMIT), row["held"], row["paced_at"], row["waiting"])
            for row in rows
        ]
        return found, rows[0]["seen_at"] if rows else None

    async def _visited(
        self, asks: Sequence[ClaimRequest]
    ) -> list[tuple[ClaimRequest, Visited | None]]:
        """Each request with the keys that follow, read now or before; None if there are none."""
        found: dict[int, list[Row]] = {}
        reading = [ask for ask in asks if ask.ahead is None]
        if reading:
            columns: dict[str, Sequence[Any]] = {
                "priority": [ask.priority for ask in reading],
                "target": [-ask.target for ask in reading],
                "after": [ask.after for ask in reading],
                "most": [AHEAD * ask.quota for ask in reading],
            }
            rows = await self._database.fetch_batch(
                "turns.visit", "claim", columns=columns, visits=MOST_VISITS
            )
            for row in rows:
                found.setdefault(row[0], []).append(row)
        read = iter([_as_visited(ask, found.get(n, [])) for n, ask in enumerate(reading)])
        return [(ask, ask.ahead or next(read)) for ask in asks]

    async def _claim(
        self,
        token: int,
        slots: int,
        wanted: Sequence[tuple[ClaimRequest, KeyShare]],
        finished: Sequence[int],
    ) -> Sequence[Row]:
        await hit("claim.before")
        rows = await self._database.fetch_batch(
            "turns.claim",
            "claim",
            columns=_columns(wanted),
            worker=worker_of(token),
            token=token,
            slots=slots,
            finished=list(finished),
        )
        await hit("claim.after")
        return rows


def _as_visited(ask: ClaimRequest, found: Sequence[Row]) -> Visited | None:
    if not found:
        return None
    seen_at = found[0][-1]
    keys = [VisitedKey(*row[1:-1]) for row in found]
    due = sum(each.due_at <= seen_at for each in keys)
    are_all = due < AHEAD * ask.quota and len(keys) < MOST_VISITS
    return Visited(keys, seen_at, are_all, is_ring=are_all and not ask.after)


def _round(
    ask: ClaimRequest,
    visited: Visited | None,
    quota: int,
    limited: Collection[tuple[int, str]],
) -> tuple[Round, list[KeyShare]]:
    """The shares of a request; `limited` are the limit keys that others of this claim use up."""
    if visited is None:
        return Round(ask.priority, ask.target, 0, ""), []
    now = ask.now_at or visited.seen_at
    early = max(0, quota - (ask.quota - ask.early))
    divided = divide(visited, quota, ask.each_key, now, early)
    # The same key in another priority was read with the same version, so each would get all of it.
    shares = [each for each in divided.shares if (ask.target, each.turn) not in limited]
    ahead, again_at = divided.ahead, divided.again_at
    if len(shares) < len(divided.shares):
        ahead, again_at = None, min(again_at or now + AGAIN, now + AGAIN)
    many = sum(each.many for each in shares)
    is_full = divided.is_full and ask.ahead is None
    found = Round(ask.priority, ask.target, many, divided.after, again_at, ahead, is_full)
    return found, shares


def _after(
    rounds: Sequence[tuple[Round, Sequence[KeyShare]]], claimed: Sequence[Claimed]
) -> list[Round]:
    """The rounds after a claim that got less than it asked for."""
    got = Counter((each.target, each.turn or "") for each in claimed)
    found = []
    for round, shares in rounds:
        counts = {share.turn: got[round.target, share.turn] for share in shares}
        ahead = round.ahead and still_ahead(round.ahead, shares, counts)
        is_full = round.is_full or any(is_short_ahead(each, counts[each.turn]) for each in shares)
        found.append(msgspec.structs.replace(round, ahead=ahead, is_full=is_full))
    return found


def _columns(wanted: Sequence[tuple[ClaimRequest, KeyShare]]) -> Mapping[str, Sequence[Any]]:
    return {
        "priority": [ask.priority for ask, _ in wanted],
        "target": [-ask.target for ask, _ in wanted],
        "turn": [share.turn for _, share in wanted],
        "many": [share.many for _, share in wanted],
        "version": [share.version for _, share in wanted],
        "in_flight": [share.in_flight for _, share in wanted],
        "at_once": [share.at_once for _, share in wanted],
        "ahead_to": [share.ahead_to for _, share in wanted],
        "paced_at": [share.paced_at for _, share in wanted],
        "interval": [share.interval for _, share in wanted],
    }
