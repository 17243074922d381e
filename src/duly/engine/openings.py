"""What a worker knows of the waiting lanes, and how it shares its free slots among them.

Higher priorities go first, and within one the targets share evenly. So that nothing starves,
every fifth claim begins with another level, in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from duly.domain.delivery import ALONE, Claimed
from duly.ports import Ask, Opening

FIRST_LOOK_EVERY = 5


class Openings:
    """The openings of the last survey, less what has been found empty since."""

    def __init__(self) -> None:
        self._openings: dict[tuple[int, int], datetime] = {}
        self._asked: list[Ask] = []
        self._turn = 0

    def learn(self, surveyed: Sequence[Opening], served: Collection[int]) -> None:
        """Take over what a survey found for the targets that this worker serves."""
        self._openings = {
            (each.priority, each.target): each.due_at for each in surveyed if each.target in served
        }

    def next_due(self) -> datetime | None:
        """When the first of them is due."""
        return min(self._openings.values(), default=None)

    def has_suspects(self, now: datetime) -> bool:
        """Whether a lane that must run alone is due."""
        return any(
            level == ALONE and due_at <= now for (level, _), due_at in self._openings.items()
        )

    def suspect(self, now: datetime) -> list[Ask]:
        """What to ask for to get one lane that must run alone."""
        for (level, target), due_at in self._openings.items():
            if level == ALONE and due_at <= now:
                self._asked = [Ask(level, target, due_at, 1)]
                return self._asked
        return []

    def asks(self, slots: int, now: datetime) -> list[Ask]:
        """What to ask for with that many free slots."""
        levels: dict[int, list[tuple[int, datetime]]] = {}
        for (level, target), due_at in self._openings.items():
            if level != ALONE and due_at <= now:
                levels.setdefault(level, []).append((target, due_at))
        self._asked = [
            Ask(level, target, due_at, -(-slots // len(levels[level])))
            for level in self._order(sorted(levels, reverse=True))
            for target, due_at in levels[level]
        ]
        return self._asked

    def _order(self, levels: list[int]) -> list[int]:
        self._turn += 1
        turn, rest = divmod(self._turn, FIRST_LOOK_EVERY)
        if rest or len(levels) < 2:
            return levels
        first = levels[turn % len(levels)]
        return [first, *(level for level in levels if level != first)]

    def note(self, claimed: Sequence[Claimed], slots: int) -> bool:
        """Learn from what a claim brought; whether there may be more.

        The last moment seen is where the next claim begins to look: what was claimed before it
        may still lie in the index, dead but not yet removed.
        """
        brought: dict[tuple[int, int], list[datetime]] = {}
        for each in claimed:
            brought.setdefault((each.priority, each.target), []).append(each.ready_at)
        full = len(claimed) >= slots
        for ask in self._asked:
            pair = (ask.priority, ask.target)
            moments = brought.get(pair, [])
            if moments and (full or len(moments) >= ask.quota):
                self._openings[pair] = max(moments)
            elif not full:
                self._openings.pop(pair, None)
        return full or any((ask.priority, ask.target) in self._openings for ask in self._asked)
