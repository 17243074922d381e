"""What a worker knows about the waiting lanes, and how it divides its free slots among them.

Namespaces share evenly. In each, higher priorities go first, and within a priority the targets
share evenly. To prevent starvation, every fifth claim begins with another priority, in turn.
What a claim asks for beyond half of the slots is held ahead; targets share that by their pace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import zip_longest

from msgspec.structs import replace

from duly.domain.deliveries.delivery import ALONE, Claimed
from duly.engine.dispatch.rotation import Group, Rotation, group_of
from duly.engine.store_clock import StoreClock
from duly.engine.targets.admission import AdmissionControl
from duly.engine.targets.directory import TargetDirectory
from duly.engine.targets.pace import Pace
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
        rotation: Rotation,
        pace: Pace,
        concurrency: int,
    ) -> None:
        self._agenda = agenda
        self._directory = directory
        self._admission = admission
        self._signal = signal
        self._store_clock = store_clock
        self._rotation = rotation
        self._pace = pace
        self._half = (concurrency + 1) // 2
        self._groups: dict[Group, datetime] = {}
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
        if hints > self._heeded:
            # There may be keys that were not there when the others were held back.
            self._rotation.wake()
        self._heeded = hints
        if surveyed and surveyed[0].seen_at is not None:
            self._store_clock.observe(surveyed[0].seen_at, self._surveyed_at)
        seen = {each.target for each in surveyed}
        await self._directory.learn(seen)
        if await self._directory.add_limits(seen):
            surveyed = await self._agenda.survey()
        self._admission.learn(surveyed)
        self.learn(surveyed)

    def learn(self, surveyed: Sequence[ClaimableGroup]) -> None:
        """Keep the surveyed groups whose targets this worker serves."""
        served = self._directory.names
        self._rotation.learn(surveyed)
        self._groups = {
            group: self._rotation.rests_until(group) or each.due_at
            for each in surveyed
            if each.target in served
            for group in (Group(each.priority, each.target, each.turns),)
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
        ready = ((group, self._ready_at(group)) for group in self._groups)
        found = (
            at
            for group, at in ready
            if at is not None
            and (but_suspects_before is None or group.priority != ALONE or at > but_suspects_before)
        )
        return min(found, default=None)

    def _ready_at(self, group: Group) -> datetime | None:
        return self._admission.ready_at(group.target, self._groups[group])

    def _is_ready(self, group: Group, now: datetime) -> bool:
        ready_at = self._ready_at(group)
        return ready_at is not None and ready_at <= now

    def has_suspects(self, now: datetime) -> bool:
        """Whether a lane that must run alone is due."""
        return any(each.priority == ALONE and self._is_ready(each, now) for each in self._groups)

    def has_others(self, now: datetime) -> bool:
        """Whether a lane that may run beside others is due."""
        return any(each.priority != ALONE and self._is_ready(each, now) for each in self._groups)

    def suspect(self, now: datetime) -> list[ClaimRequest]:
        """The request for one lane that must run alone."""
        for group, due_at in self._groups.items():
            if group.priority == ALONE and self._is_ready(group, now):
                return [self._rotation.ask(group, due_at, 1)]
        return []

    def is_crowded(self, now: datetime) -> bool:
        """Whether something is due that waits only for attempts of its target, or its limits."""
        return any(
            due_at <= now and self._admission.is_held_up(group.target, now)
            for group, due_at in self._groups.items()
        )

    def ahead(self, now: datetime) -> int:
        """How many lanes may be held ahead of free slots, by the pace of their targets.

        None while something is ready that must not wait behind them: an endpoint, what has a rate
        or other limits than those of keys, or a handler that is slow, hangs or was not seen yet.
        Those need slots that are really free.
        """
        self._pace.look()
        ready = [g for g in self._groups if g.priority != ALONE and self._is_ready(g, now)]
        if not all(self._admission.may_wait(g.target) for g in ready):
            return 0
        if not all(map(self._rotation.may_wait, ready)):
            return 0
        targets = {group.target for group in ready}
        ahead = self._pace.total(targets)
        return 0 if self._admission.is_slow(targets, ahead) else ahead

    def hold_nothing(self, seconds: float) -> None:
        """Let nothing be claimed ahead for some seconds."""
        self._pace.rest(seconds)

    @property
    def settled_lanes(self) -> int:
        """How many lanes of this worker were settled so far."""
        return self._rotation.settled_lanes

    def is_full(self, asked: Sequence[ClaimRequest]) -> bool:
        """Whether keys that were asked have nothing more to be held ahead."""
        return any(self._rotation.is_full(group_of(ask)) for ask in asked)

    def asks(self, slots: int, now: datetime, early: int = 0) -> list[ClaimRequest]:
        """The requests for this many slots, of which `early` are not free yet.

        If there are more targets than slots, each call asks for other targets: otherwise the
        first ones would take every slot.
        """
        waiting: dict[str | None, dict[int, list[tuple[Group, datetime]]]] = {}
        for group, due_at in self._groups.items():
            if group.priority != ALONE and self._is_ready(group, now):
                levels = waiting.setdefault(self.foreign(group.target), {})
                levels.setdefault(group.priority, []).append((group, due_at))
        self._turn += 1
        namespaces = list(waiting)
        if len(namespaces) > 1:
            # What is rounded up for the first is missing for the last: each is first in turn.
            step = slots if len(namespaces) > slots else 1
            first = self._turn * step % len(namespaces)
            namespaces = [*namespaces[first:], *namespaces[:first]][:slots]
        share = -(-slots // max(1, len(namespaces)))
        asks = [self._by_level(waiting[each], share) for each in namespaces]
        # The first level of each namespace before any second level: no namespace starves the
        # others with many targets, or by giving everything a high priority.
        ranked = [
            ask for rank in zip_longest(*asks, fillvalue=()) for level in rank for ask in level
        ]
        return self._within(slots, _with_early(ranked, slots - early) if early else ranked)

    def _by_level(
        self, levels: dict[int, list[tuple[Group, datetime]]], slots: int
    ) -> list[list[ClaimRequest]]:
        order = self._order(sorted(levels, reverse=True))
        return [self._shares(levels[level], slots) for level in order]

    def _shares(self, waiting: list[tuple[Group, datetime]], slots: int) -> list[ClaimRequest]:
        room, first = self._admission.room_now, self._turn * slots % len(waiting)
        chosen = [*waiting[first:], *waiting[:first]][:slots]
        # By their pace alone, a target that began with few slots would never get more.
        even = min(slots, self._half)
        share, ahead = -(-even // len(waiting)), self._by_pace(chosen, slots - even)
        return [
            self._rotation.ask(group, due_at, min(share, room(group.target)) + ahead[group.target])
            for group, due_at in chosen
        ]

    def _by_pace(self, chosen: list[tuple[Group, datetime]], slots: int) -> dict[int, int]:
        """What each group gets ahead; a target may have several, with and without keys.

        Handlers share these slots; what an endpoint or URL has ahead takes no slot of others.
        """
        groups = Counter(group.target for group, _ in chosen)
        own = {target: self._admission.room_ahead(target) for target in groups}
        paces = {t: self._pace.ahead(t) if slots > 0 and not own[t] else 0 for t in groups}
        total = sum(paces.values()) or 1
        return {
            # Rounded up, or a few would never be asked for; the claim as a whole is limited.
            target: -(-own[target] // many) or slots * paces[target] // total // many
            for target, many in groups.items()
        }

    def _within(self, slots: int, asks: list[ClaimRequest]) -> list[ClaimRequest]:
        """The requests, so that they take at most these slots.

        The store limits the number of all, and so by itself, unless some take no slot: those that
        wait behind attempts of their own target.
        """
        if not any(self._admission.room_ahead(ask.target) for ask in asks):
            return asks
        within, groups = list[ClaimRequest](), Counter(ask.target for ask in asks)
        for ask in asks:
            behind = -(-self._admission.room_ahead(ask.target) // groups[ask.target])
            now = ask.quota - behind
            # Without a slot for each that could start, none would be behind them.
            quota = ask.quota if now <= slots else slots
            slots -= min(now, slots)
            if quota:
                within.append(replace(ask, quota=quota))
        return within

    def most(self, slots: int, asks: Sequence[ClaimRequest]) -> int:
        """How many may be claimed for so many slots: more if some wait behind others."""
        if not any(self._admission.room_ahead(ask.target) for ask in asks):
            return slots
        return sum(ask.quota for ask in asks)

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
        ready: dict[tuple[int, int, bool], list[datetime]] = {}
        for each in claimed:
            # Equal to a Group, which takes four times as long to make.
            group = (each.priority, each.target, each.turn is not None)
            ready.setdefault(group, []).append(each.ready_at)
        full, answered = len(claimed) >= slots, self._rotation.take_answered()
        for ask in asked:
            asked_for = group_of(ask)
            moments = ready.get(asked_for, [])
            if asked_for.turns:
                # Others may have taken all slots before its turn: then nothing is known of it.
                if asked_for in answered:
                    self._note_round(asked_for)
            elif moments and (full or len(moments) >= ask.quota):
                self._groups[asked_for] = max(moments)
            elif not full:
                self._groups.pop(asked_for, None)
        return full or any(self._has_more(group_of(ask)) for ask in asked)

    def _has_more(self, group: Group) -> bool:
        if group.turns:
            return group in self._groups and self._rotation.goes_on(group)
        return group in self._groups

    def _note_round(self, group: Group) -> None:
        """Lanes with keys: ready at once, when a limit allows it, or none is left."""
        rests_until = self._rotation.rests_until(group)
        if self._rotation.goes_on(group):
            self._groups[group] = self._store_clock.now()
        elif rests_until is not None:
            self._groups[group] = rests_until
        else:
            self._groups.pop(group, None)

    def rests(self, asked: Sequence[ClaimRequest]) -> bool:
        """Whether limits of keys hold back all that was asked for."""
        return all(ask.turns and group_of(ask) in self._groups for ask in asked)


def _with_early(asks: list[ClaimRequest], free: int) -> list[ClaimRequest]:
    """The requests, each with how many of its lanes there is no free slot for yet."""
    marked = []
    for ask in asks:
        at_once = min(ask.quota, free)
        free -= at_once
        marked.append(replace(ask, early=ask.quota - at_once) if ask.turns else ask)
    return marked
