"""Claims due lanes for the free slots of this worker, and starts their deliveries."""

from __future__ import annotations

from datetime import datetime, timedelta

from duly.engine.dispatch.claimable_work import ClaimableWork
from duly.engine.dispatch.claimer import Claimer
from duly.engine.dispatch.claims import Claims
from duly.engine.dispatch.suspects import AGAIN_SECONDS, Suspects
from duly.engine.execution.delivery_runner import DeliveryRunner
from duly.engine.execution.settler import Settler
from duly.engine.loops import NOW, UNTIL_WOKEN, Pause
from duly.engine.membership import Membership
from duly.engine.planners import Planners
from duly.engine.store_clock import StoreClock
from duly.engine.work_signal import WorkSignal

AWAY = timedelta(seconds=30)


class Dispatcher:
    """Claims at most as many lanes as there are free slots."""

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

    async def tick(self) -> Pause:
        """Survey if needed, claim once, and start what was claimed."""
        lease = self._membership.lease
        if not lease.holds():
            return Pause(self._poll)
        if lease.draining:
            await self._suspects.stop_waiting()
            return Pause(self._poll)
        if await self._claims.hand_back():
            self._signal.hint()
        await self._runner.let_finish(self._concurrency // 4)
        free = self._free()
        if free <= 0 or self._runner.is_alone:
            return UNTIL_WOKEN
        if self._work.needs_survey():
            await self._survey()
        now = self._store_clock.now()
        if self._suspects.is_due(now) and await self._suspects.isolate():
            return await self._suspects.claim(now)
        await self._suspects.let_others_run()
        return await self._claim(free, now)

    def _free(self) -> int:
        # As many outcomes may wait to be written as deliveries run; with more, a slow store would
        # let memory grow.
        unwritten = max(0, self._settler.unsettled - self._concurrency)
        free = self._concurrency - self._runner.running - unwritten
        # At most half at a time, so that one half runs while the other is being claimed.
        return min(free, (self._concurrency + 1) // 2)

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

    async def _claim(self, free: int, now: datetime) -> Pause:
        asks = self._work.asks(free, now)
        if not asks:
            # A hint received during the survey or claim may be for other targets.
            missed = self._work.missed_a_hint
            self._signal.came_short = missed or not self._work.is_crowded(now)
            return NOW if missed or self._suspects.is_due(now) else self._until_due()
        asked, claimed, _ = await self._claimer.claim(free, asks)
        more = self._work.note(asked, claimed, free)
        self._signal.came_short = not more
        if more:
            return NOW
        if claimed or not asked:
            return self._until_due()
        # Due by this clock but not claimed: another worker has it, or the store's clock is behind.
        return Pause(min(AGAIN_SECONDS, self._poll))

    def _until_due(self) -> Pause:
        now = self._store_clock.now()
        seconds = self._suspects.longest_pause(now)
        next_due = self._work.next_due(but_suspects_before=now)
        if next_due is not None:
            seconds = min(seconds, max((next_due - now).total_seconds(), 0.0))
        return Pause(seconds)
