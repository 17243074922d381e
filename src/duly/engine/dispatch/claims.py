"""The claims of one worker: the tokens of its claims, until nothing is held under them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.identifiers import token
from duly.domain.events import LanesClaimed
from duly.engine.dispatch.rotation import Rotation
from duly.engine.lease import Lease
from duly.engine.membership import Membership
from duly.ports import Agenda, ClaimRequest, Clock, Emit, Turns

HAND_BACK_SECONDS = 0.5
DOUBT_SECONDS = 90.0
"""Longer than the store lets any statement take."""


class Claims:
    """Claims with a new token each time, and hands back claims whose answer was lost."""

    def __init__(
        self,
        agenda: Agenda,
        turns: Turns,
        rotation: Rotation,
        clock: Clock,
        membership: Membership,
        emit: Emit,
    ) -> None:
        self._agenda = agenda
        self._turns = turns
        self._rotation = rotation
        self._clock = clock
        self._membership = membership
        self._emit = emit
        self._made = 0
        self._given: set[int] = set()
        self._doubtful: dict[int, float] = {}
        self._handed_back_at = float("-inf")

    async def make(
        self, slots: int, asks: list[ClaimRequest], open_tokens: set[int]
    ) -> list[Claimed]:
        """Claim lanes; empty if the lease was lost meanwhile.

        `open_tokens`: those under which something runs or waits to be settled. The store may forget
        all others.
        """
        held, asked_at = self._membership.lease, self._clock.monotonic()
        finished = list(self._given - open_tokens - self._doubtful.keys())
        given: list[int] = []
        try:
            claimed = await self._claim(held, given, slots, asks, finished)
        except BaseException:
            # The store may have claimed lanes for these tokens.
            self._doubt(given)
            raise
        self._given.difference_update(finished)
        now = self._clock.monotonic()
        _carry_expiry(claimed, now)
        self._emit(LanesClaimed(lanes=len(claimed), seconds=now - asked_at))
        if claimed:
            self._given.update(given)
        if self._membership.lease is not held or not held.holds():
            self._doubt(given)
            return []
        return claimed

    async def _claim(
        self,
        held: Lease,
        given: list[int],
        slots: int,
        asks: list[ClaimRequest],
        finished: list[int],
    ) -> list[Claimed]:
        """Claim in the order of the requests; lanes with keys by a statement of their own.

        Each statement has a token of its own, which is added to `given`: what is held under a
        token is what one statement has claimed.
        """
        claimed: list[Claimed] = []
        for in_turn, part in groupby(asks, key=attrgetter("turns")):
            free = slots - len(claimed)
            if free <= 0:
                break
            self._made += 1
            given.append(token(held.worker, self._made))
            if in_turn:
                found, rounds = await self._turns.claim(given[-1], free, list(part), finished)
                self._rotation.note(rounds)
            else:
                found = await self._agenda.claim(given[-1], free, list(part), finished)
            claimed.extend(found)
        return claimed

    def abandon(self) -> None:
        """Forget all tokens after the lease was lost: other workers reclaim what is held."""
        self._given.clear()

    def _doubt(self, given: list[int]) -> None:
        self._given.update(given)
        self._doubtful |= dict.fromkeys(given, self._clock.monotonic() + DOUBT_SECONDS)

    async def hand_back(self, *, at_once: bool = False) -> bool:
        """Hand back claims whose answer was lost; whether any lane was held.

        It is repeated for a while: the server may still run a claim whose connection is gone, and
        commit it after the first hand-back.
        """
        now, found = self._clock.monotonic(), False
        if not self._doubtful or (not at_once and now < self._handed_back_at + HAND_BACK_SECONDS):
            return False
        self._handed_back_at = now
        for given, until in list(self._doubtful.items()):
            found = bool(await self._agenda.release(given)) or found
            if now >= until:
                del self._doubtful[given]
        return found


def _carry_expiry(claimed: Sequence[Claimed], now: float) -> None:
    """Set the expiry on the monotonic clock, from the seconds left by the store's clock."""
    for each in claimed:
        if each.expires_in is not None:
            each.expires_on = now + each.expires_in
        if each.followers:
            _carry_expiry(each.followers, now)
