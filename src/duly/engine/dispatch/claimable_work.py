"""What a worker knows about the waiting lanes, and how it divides its free slots among them.

Namespaces share evenly. In each, higher priorities go first, and within a priority the targets
share evenly. To prevent starvation, every fifth claim begins with another priority, in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import zip_longest

from duly.domain.deliveries.delivery import ALONE, Claimed
from duly.engine.store_clock import StoreClock
from duly.engine.targets.admission import AdmissionControl
from duly.engine.targets.directory import TargetDirectory
from duly.engine.work_signal import WorkSignal
from duly.ports import Agenda, ClaimableGroup, ClaimRequest

FIRST_LOOK_EVERY = 5
SURVEY_SECONDS = 1.0


class ClaimableWork:
    """The groups of lanes found by the last survey, without those found empty since."""

    def __init__(
        self,
        agenda: Agenda,
        directory: TargetDirectory,
        admission: AdmissionControl,
        signal: WorkSignal,
        store_clock: StoreClock,
    ) -> None:
        self._agenda = agenda
        self._directory = directory
        self._admission = admission
        self._signal = signal
        self._store_clock = store_clock
        self._groups: dict[tuple[int, int], datetime] = {}
        self._turn = 0
        self._surveyed_at = float("-inf")
        self._heeded = 0

    def needs_survey(self) -> bool:
        """Whether the last claim left slots free, or the last survey is too old."""
        return self._signal.came_short or (
            self._store_clock.monotonic() - self._surveyed_at >= SURVEY_SECONDS
        )

    async def survey(self) -> None:
        """Read from the store which lanes wait, and about their targets."""
        self._surveyed_at, hints = self._store_clock.monotonic(), self._signal.hints
        surveyed = await self._agenda.survey()
        self._heeded = hints
        if surveyed and surveyed[0].seen_at is not None:
            self._store_clock.observe(surveyed[0].seen_at)
        await self._directory.learn({each.target for each in surveyed})
        self._admission.learn(surveyed)
        self.learn(surveyed)

    def learn(self, surveyed: Sequence[ClaimableGroup]) -> None:
        """Keep the surveyed groups whose targets this worker serves."""
        served = self._directory.names
        self._groups = {
            (each.priority, each.target): each.due_at for each in surveyed if each.target in served
        }

    @property
    def missed_a_hint(self) -> bool:
        """Whether work was reported as due since the last survey began."""
        return self._signal.hints > self._heeded

    def foreign(self, target: int) -> str | None:
        """The target's namespace, if it is not the worker's own."""
        return self._directory.foreign.get(target)

    def next_due(self, *, but_suspects_before: datetime | None = None) -> datetime | None:
        """When the first can be claimed; suspects due before the given moment may be left out."""
        ready = ((pair, self._ready_at(pair)) for pair in self._groups)
        found = (
            at
            for (level, _), at in ready
            if at is not None
            and (but_suspects_before is None or level != ALONE or at > but_suspects_before)
        )
        return min(found, default=None)

    def _ready_at(self, pair: tuple[int, int]) -> datetime | None:
        return self._admission.ready_at(pair[1], self._groups[pair])

    def _is_ready(self, pair: tuple[int, int], now: datetime) -> bool:
        ready_at = self._ready_at(pair)
        return ready_at is not None and ready_at <= now

    def has_suspects(self, now: datetime) -> bool:
        """Whether a lane that must run alone is due."""
        return any(pair[0] == ALONE and self._is_ready(pair, now) for pair in self._groups)

    def has_others(self, now: datetime) -> bool:
        """Whether a lane that may run beside others is due."""
        return any(pair[0] != ALONE and self._is_ready(pair, now) for pair in self._groups)

    def suspect(self, now: datetime) -> list[ClaimRequest]:
        """The request for one lane that must run alone."""
        for (level, target), due_at in self._groups.items():
            if level == ALONE and self._is_ready((level, target), now):
                return [ClaimRequest(level, target, due_at, 1)]
        return []

    def is_crowded(self, now: datetime) -> bool:
        """Whether something is due that waits only for other attempts of its target to end."""
        return any(
            due_at <= now and self._admission.room(target) <= 0
            for (_, target), due_at in self._groups.items()
        )

    def asks(self, slots: int, now: datetime) -> list[ClaimRequest]:
        """The requests for this many free slots.

        If there are more targets than slots, each call asks for other targets: otherwise the
        first ones would take every slot.
        """
        waiting: dict[str | None, dict[int, list[tuple[int, datetime]]]] = {}
        for (level, target), due_at in self._groups.items():
            if level != ALONE and self._is_ready((level, target), now):
                levels = waiting.setdefault(self.foreign(target), {})
                levels.setdefault(level, []).append((target, due_at))
        self._turn += 1
        namespaces = list(waiting)
        if len(namespaces) > 1:
            first = self._turn * slots % len(namespaces)
            namespaces = [*namespaces[first:], *namespaces[:first]][:slots]
        share = -(-slots // max(1, len(namespaces)))
        asks = [self._by_level(waiting[each], share) for each in namespaces]
        # The first level of each namespace before any second level: no namespace starves the
        # others with many targets, or by giving everything a high priority.
        return [ask for rank in zip_longest(*asks, fillvalue=()) for level in rank for ask in level]

    def _by_level(
        self, levels: dict[int, list[tuple[int, datetime]]], slots: int
    ) -> list[list[ClaimRequest]]:
        order = self._order(sorted(levels, reverse=True))
        return [self._shares(level, levels[level], slots) for level in order]

    def _shares(
        self, level: int, waiting: list[tuple[int, datetime]], slots: int
    ) -> list[ClaimRequest]:
        room, first = self._admission.room, self._turn * slots % len(waiting)
        chosen = [*waiting[first:], *waiting[:first]][:slots]
        share = -(-slots // len(waiting))
        return [
            ClaimRequest(level, target, due_at, min(share, room(target)))
            for target, due_at in chosen
        ]

    def _order(self, levels: list[int]) -> list[int]:
        turn, rest = divmod(self._turn, FIRST_LOOK_EVERY)
        if rest or len(levels) < 2:
            return levels
        first = levels[turn % len(levels)]
        return [first, *(level for level in levels if level != first)]

    def note(self, asked: Sequence[ClaimRequest], claimed: Sequence[Claimed], slots: int) -> bool:
        """Update the groups with the result of a claim; whether there may be more to claim.

        The next claim begins at the last moment seen: claimed rows before it may still be in the
        index, dead but not yet removed.
        """
        ready: dict[tuple[int, int], list[datetime]] = {}
        for each in claimed:
            ready.setdefault((each.priority, each.target), []).append(each.ready_at)
        full = len(claimed) >= slots
        for ask in asked:
            pair = (ask.priority, ask.target)
            moments = ready.get(pair, [])
            if moments and (full or len(moments) >= ask.quota):
                self._groups[pair] = max(moments)
            elif not full:
                self._groups.pop(pair, None)
        return full or any((ask.priority, ask.target) in self._groups for ask in asked)
