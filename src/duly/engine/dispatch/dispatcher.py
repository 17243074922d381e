"""Claims due lanes for the slots of this worker, and starts their deliveries.

While all that is due goes to fast handlers, it claims ahead of free slots: as much as the worker
completes in 50 ms. Its slots then never wait for a claim, and claims are few and large.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from duly.domain.deliveries.delivery import Claimed
from duly.engine.dispatch.claimable_work import ClaimableWork
from duly.engine.dispatch.claimer import Claimer
from duly.engine.dispatch.claims import Claims
from duly.engine.dispatch.suspects import AGAIN_SECONDS, Suspects
from duly.engine.execution.delivery_runner import DeliveryRunner
from duly.engine.execution.settler import Settler
from duly.engine.execution.waiting import LONGEST_HOLD_SECONDS
from duly.engine.loops import NOW, UNTIL_WOKEN, Pause
from duly.engine.membership import Membership
from duly.engine.planners import Planners
from duly.engine.store_clock import StoreClock
from duly.engine.work_signal import WorkSignal
from duly.ports import ClaimRequest

AWAY = timedelta(seconds=30)
NO_AHEAD_SECONDS = 1.0
"""How long nothing is claimed ahead after a lane that a dead worker held."""
FULL_SECONDS = 0.05
"""How long no more is claimed ahead than limits of keys allowed."""


class Dispatcher:
    """Claims as many lanes as there are free slots, and those that may be held ahead."""

    name = "dispatcher"

    def __init__(
        self,
        membership: Membership,
        signal: WorkSignal,
        work: ClaimableWork,
        claims: Claims,
        claimer: Claimer,
        suspects: Suspects,
        runner: DeliveryRunner,
        settler: Settler,
        planner: Planners,
        store_clock: StoreClock,
        *,
        concurrency: int,
        poll: float,
    ) -> None:
        self.wake = signal.wake
        self._membership = membership
        self._signal = signal
        self._work = work
        self._claims = claims
        self._claimer = claimer
        self._suspects = suspects
        self._runner = runner
        self._settler = settler
        self._planner = planner
        self._store_clock = store_clock
        self._concurrency = concurrency
        self._poll = poll
        self._looked_at: datetime | None = None
        self._ahead = 0
        """How many lanes may be held ahead, as known at the last claim."""
        self._most_ahead = 0
        self._most_ahead_until = float("-inf")
        self._settled_until = 0

    async def tick(self) -> Pause:
        """Survey if needed, claim once, and start what was claimed."""
        pause = await self._tick()
        if self._runner.held or self._runner.behind:
            return Pause(min(pause.seconds, LONGEST_HOLD_SECONDS))
        return pause

    async def _tick(self) -> Pause:
        lease = self._membership.lease
        if not lease.holds():
            return Pause(self._poll)
        if lease.draining:
            self._runner.hand_back_held()
            await self._suspects.stop_waiting()
            return Pause(self._poll)
        self._runner.hand_back_late()
        if await self._claims.hand_back():
            self._signal.hint()
        await self._runner.let_finish(self._concurrency // 4)
        if sum(self._slots()) <= 0 or self._runner.is_alone:
            return UNTIL_WOKEN
        if self._work.needs_survey():
            await self._survey()
        now = self._store_clock.now()
        if self._suspects.is_due(now) and await self._suspects.isolate():
            return await self._suspects.claim(now)
        await self._suspects.let_others_run()
        self._ahead = self._work.ahead(now)
        if self._is_bound():
            self._ahead = min(self._ahead, self._most_ahead)
        free, early = self._slots()
        return await self._claim(free + early, early, now) if free + early > 0 else UNTIL_WOKEN

    def _slots(self) -> tuple[int, int]:
        """How many lanes to claim for free slots, and ahead if less than half of that is left."""
        # As many outcomes may wait to be written as deliveries are held; with more, a slow store
        # would let memory grow.
        unwritten = max(0, self._settler.unsettled - self._concurrency - self._ahead)
        free = self._concurrency - self._runner.running - unwritten
        held = self._runner.held
        more = self._ahead - held if 2 * held < self._ahead else 0
        # At most half at a time, so that one half runs while the other is being claimed.
        return min(free, (self._concurrency + 1) // 2), more

    async def _survey(self) -> None:
        await self._work.survey()
        if self._was_away():
            # Missed occurrences are planned before any of them is claimed.
            await self._planner.catch_up()
            await self._work.survey()

    def _was_away(self) -> bool:
        """Whether the machine slept, or the store's clock was stepped, since the last survey."""
        now, before = self._store_clock.now(), self._looked_at
        self._looked_at = now
        return before is not None and now - before > AWAY

    async def _claim(self, slots: int, early: int, now: datetime) -> Pause:
        asks = self._work.asks(slots, now, min(early, slots))
        if not asks:
            # A hint received during the survey or claim may be for other targets.
            missed = self._work.missed_a_hint
            self._signal.came_short = missed or not self._work.is_crowded(now)
            return NOW if missed or self._suspects.is_due(now) else self._until_due()
        slots = self._work.most(slots, asks)
        asked, claimed, _ = await self._claimer.claim(slots, asks)
        more = self._work.note(asked, claimed, slots)
        self._bound_ahead(asked, claimed)
        self._signal.came_short = not more
        if more or self._work.missed_a_hint:
            return NOW
        if claimed or self._work.rests(asked):
            return self._until_due()
        # Due by this clock but not claimed: another worker has it, or the store's clock is behind.
        return Pause(min(AGAIN_SECONDS, self._poll))

    def _bound_ahead(self, asked: list[ClaimRequest], claimed: list[Claimed]) -> None:
        """Claim no more ahead for a moment than can be had."""
        if any(each.crashes for each in claimed):
            # Those are never held ahead (see DeliveryRunner.start): more would come back at once.
            self._work.hold_nothing(NO_AHEAD_SECONDS)
        elif self._work.is_full(asked):
            # Otherwise each slot that gets free would cause a claim of a few.
            is_much = 2 * len(claimed) >= self._concurrency
            most = max(self._runner.held, self._concurrency) if is_much else 0
            if not self._is_bound() or most < self._most_ahead:
                self._most_ahead = most
                self._most_ahead_until = self._store_clock.monotonic() + FULL_SECONDS
                self._settled_until = self._work.settled_lanes + max(1, self._concurrency // 2)

    def _is_bound(self) -> bool:
        """Whether the bound still applies: until time has passed, or settled lanes left room."""
        return (
            self._store_clock.monotonic() < self._most_ahead_until
            and self._work.settled_lanes < self._settled_until
        )

    def _until_due(self) -> Pause:
        now = self._store_clock.now()
        seconds = self._suspects.longest_pause(now)
        next_due = self._work.next_due(but_suspects_before=now)
        if next_due is not None:
            seconds = min(seconds, max((next_due - now).total_seconds(), 0.0))
        return Pause(seconds)
