"""How far each round over the keys of a target is, and which rounds wait for limits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from duly.domain.deliveries.outcomes import Settlement
from duly.domain.endpoints.gates import NO_LIMITS, TargetLimits
from duly.domain.turns import Visited, may_be_held_ahead
from duly.engine.store_clock import StoreClock
from duly.engine.targets.directory import TargetDirectory
from duly.engine.work_signal import WorkSignal
from duly.ports import ClaimableGroup, ClaimRequest, Round

FRESH = timedelta(milliseconds=100)
"""How long keys that were read ahead are used: others may have something due since."""


class Group(NamedTuple):
    """The lanes of one priority and target: those with keys, or the others."""

    priority: int
    target: int
    turns: bool = False


def group_of(ask: ClaimRequest | Round) -> Group:
    """The group that is asked for."""
    return Group(ask.priority, ask.target, isinstance(ask, Round) or ask.turns)


class Position(msgspec.Struct):
    """A round over the keys of a group: the last key, and what the round has found so far."""

    after: str = ""
    claimed: int = 0
    again_at: datetime | None = None
    goes_on: bool = True
    """There may be more to claim at once."""
    rests_until: datetime | None = None
    """If not: when a limit allows more."""
    ahead: Visited | None = None
    """The keys that follow, read by an earlier claim."""
    is_full: bool = False
    """Its keys have nothing more to be held ahead of free slots."""

    def note(self, result: Round) -> None:
        """Update from a claim. A round that found nothing is the last one, or waits for limits."""
        self.after, self.ahead, self.is_full = result.after, result.ahead, result.is_full
        self.claimed += result.claimed
        self.again_at = min(filter(None, (self.again_at, result.again_at)), default=None)
        self.goes_on, self.rests_until = bool(self.after or self.claimed or self.is_full), None
        if not self.after:
            self.rests_until = None if self.goes_on else self.again_at
            self.claimed, self.again_at = 0, None


class Rotation:
    """The rounds of this worker. Each worker goes round on its own."""

    def __init__(self, signal: WorkSignal, store_clock: StoreClock) -> None:
        self._signal = signal
        self._store_clock = store_clock
        self._positions: dict[Group, Position] = {}
        self._limits: dict[int, TargetLimits] = {}
        self._answered: set[Group] = set()
        self.settled_lanes = 0
        """How many lanes of this worker were settled so far; each gives its key room."""

    def learn(self, surveyed: Sequence[ClaimableGroup]) -> None:
        """Forget groups without lanes; read the limits of each key."""
        groups = {Group(each.priority, each.target, True) for each in surveyed if each.turns}
        self._positions = {
            group: self._positions.get(group) or Position() for group in sorted(groups)
        }
        self._limits = {each.target: each.each_key for each in surveyed if each.turns}

    def ask(self, group: Group, due_at: datetime, quota: int) -> ClaimRequest:
        """A request for lanes of the group."""
        if not group.turns:
            return ClaimRequest(group.priority, group.target, due_at, quota)
        position, now = self._positions[group], self._store_clock.now()
        limits, ahead = self._limits.get(group.target, NO_LIMITS), position.ahead
        if ahead is None or not (_is_fresh(ahead, now) and _is_enough(ahead, quota)):
            return ClaimRequest(*group[:2], due_at, quota, True, position.after, limits)
        return ClaimRequest(*group[:2], due_at, quota, True, position.after, limits, ahead, now)

    def may_wait(self, group: Group) -> bool:
        """Whether lanes of the group may be held ahead of free slots."""
        limits = self._limits.get(group.target, NO_LIMITS)
        return not group.turns or may_be_held_ahead(limits)

    def is_full(self, group: Group) -> bool:
        """Whether keys of the group have nothing more to be held ahead of free slots."""
        return group.turns and self._positions[group].is_full

    def note(self, rounds: Sequence[Round]) -> None:
        """Update from the results of requests."""
        for each in rounds:
            self._positions.setdefault(group_of(each), Position()).note(each)
        self._answered.update(map(group_of, rounds))

    def take_answered(self) -> set[Group]:
        """The groups with a result since this was last called."""
        answered, self._answered = self._answered, set()
        return answered

    def goes_on(self, group: Group) -> bool:
        """Whether there may be more to claim at once."""
        return self._positions[group].goes_on

    def rests_until(self, group: Group) -> datetime | None:
        """When limits allow more, if they hold back all that waits; None otherwise."""
        position = self._positions.get(group)
        return None if position is None else position.rests_until

    def wake(self) -> None:
        """Wait no longer: other keys may have something due."""
        for each in self._positions.values():
            each.rests_until = each.ahead = None

    def settled(self, written: Sequence[Settlement], directory: TargetDirectory) -> None:  # noqa: ARG002 - an observer of the settler
        """Lanes were settled: keys of their targets may be below their limits again."""
        self.settled_lanes += len(written)
        resting = {g.target for g, each in self._positions.items() if each.rests_until}
        if resting and any(each.target in resting for each in written):
            self.wake()
            self._signal.hint()


def _is_fresh(ahead: Visited, now: datetime) -> bool:
    return timedelta() <= now - ahead.seen_at < FRESH


def _is_enough(ahead: Visited, quota: int) -> bool:
    """Whether a claim of so many would not be shared by the last few keys alone."""
    return ahead.are_all or len(ahead.keys) - ahead.next >= quota
