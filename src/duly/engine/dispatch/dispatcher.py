"""Claiming due lanes for the free slots of this worker, and starting what was claimed."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from duly.domain.deliveries.delivery import Claimed
from duly.domain.events import SuspectRuns
from duly.engine.dispatch.aside import Aside
from duly.engine.dispatch.claimable_work import ClaimableWork
from duly.engine.dispatch.claims import Claims
from duly.engine.execution.delivery_runner import DeliveryRunner
from duly.engine.execution.execution import Executor
from duly.engine.execution.settler import Settler
from duly.engine.loops import NOW, Pause
from duly.engine.membership import Membership
from duly.engine.targets.admission import AdmissionControl
from duly.engine.targets.directory import TargetDirectory
from duly.engine.work_signal import WorkSignal
from duly.errors import StoreUnavailable
from duly.ports import ClaimRequest, Clock, Emit

UNTIL_WOKEN = Pause(3600.0)
SURVEY_SECONDS = 1.0
AGAIN_SECONDS = 0.05
BUSY_SECONDS = 0.25
AWAY = timedelta(seconds=30)


class Dispatcher:
    """Claims at most its free slots, and has what it got attempted."""

    name = "dispatcher"

    def __init__(
        self,
        executor: Executor,
        settler: Settler,
        membership: Membership,
        directory: TargetDirectory,
        clock: Clock,
        signal: WorkSignal,
        gates: AdmissionControl,
        emit: Emit,
        *,
        concurrency: int,
        poll: float,
        grace: timedelta,
    ) -> None:
        self.signal, self.wake = signal, signal.wake
        self._by = executor
        self._settler = settler
        self._membership = membership
        self._emit = emit
        self._concurrency = concurrency
        self._poll = poll
        self._gates = gates
        self.directory = directory
        self._openings = ClaimableWork(gates, self.directory.foreign)
        self.runner = DeliveryRunner(
            executor, settler, gates, self.directory, signal, emit, membership, grace=grace
        )
        self.on_return: Callable[[], Awaitable[None]] | None = None
        self._looked_at: datetime | None = None
        self._surveyed_at = float("-inf")
        self._heeded = 0
        self._claims = Claims(executor.store.agenda, clock, membership, emit)
        self._aside = Aside(executor.store.workers, clock)
        self._suspects_turn = True

    @property
    def running(self) -> int:
        """How many deliveries are being attempted."""
        return len(self.runner.running)

    @property
    def is_busy(self) -> bool:
        """Whether anything is being attempted, or was a moment ago."""
        now = self._by.clock.monotonic()
        return bool(self.runner.running) or now - self._claims.last_at < BUSY_SECONDS

    async def tick(self) -> Pause:
        """Survey if need be, claim once, start what came."""
        lease = self._membership.lease
        if not lease.holds():
            return Pause(self._poll)
        if lease.draining:
            await self._aside.leave()
            return Pause(self._poll)
        if await self._claims.hand_back():
            self.signal.hint()
        await self.runner.let_finish(self._concurrency // 4)
        free = self._free()
        if free <= 0 or self.runner.is_alone:
            return UNTIL_WOKEN
        if self._needs_survey():
            await self._survey()
            if self._was_away() and self.on_return is not None:
                # What was missed is planned before anything of it is claimed.
                await self.on_return()
                await self._survey()
        now = self._by.now()
        if self._wants_suspect(now) and await self._aside.stand(self._membership.worker):
            return await self._claim_suspect(now)
        await self._aside.leave(in_vain=bool(self.runner.running))
        return await self._claim_openings(free, now)

    @property
    def _is_idle(self) -> bool:
        # What a suspect might take down with it is on the books before it runs.
        return not self.runner.running and not self._settler.unsettled

    def _wants_suspect(self, now: datetime) -> bool:
        # Suspects and the rest take turns, or a hundred of them would hold up everyone.
        others = self._openings.has_others(now)
        return (self._suspects_turn or not others) and self._aside.wants(
            suspects=self._openings.has_suspects(now), is_idle=self._is_idle, others=others
        )

    def _was_away(self) -> bool:
        """Whether the machine slept, or the store's clock was stepped, since the last look."""
        now, before = self._by.now(), self._looked_at
        self._looked_at = now
        return before is not None and now - before > AWAY

    async def _claim_openings(self, free: int, now: datetime) -> Pause:
        self._suspects_turn = True
        asks = self._openings.asks(free, now)
        if not asks:
            # What was hinted at while we looked or claimed may be for others than the crowded.
            missed = self.signal.hints > self._heeded
            self.signal.came_short = missed or not self._openings.is_crowded(now)
            return NOW if missed or self._wants_suspect(now) else self._until_due()
        asks, claimed, _ = await self._claim_and_start(free, asks)
        more = self._openings.note(asks, claimed, free)
        self.signal.came_short = not more
        if more:
            return NOW
        if not asks:
            return self._until_due()
        # Due by our clock and yet not to be had: another has it, or the store's clock is behind.
        return self._until_due() if claimed else Pause(min(AGAIN_SECONDS, self._poll))

    def _free(self) -> int:
        # Outcomes that wait to be written may be as many as run, or a slow store would let
        # memory grow.
        unwritten = max(0, self._settler.unsettled - self._concurrency)
        free = self._concurrency - len(self.runner.running) - unwritten
        # At most half at a time, so that one half runs while the other is being claimed.
        return min(free, (self._concurrency + 1) // 2)

    def _needs_survey(self) -> bool:
        return self.signal.came_short or (
            self._by.clock.monotonic() - self._surveyed_at >= SURVEY_SECONDS
        )

    async def _survey(self) -> None:
        self._surveyed_at, hints = self._by.clock.monotonic(), self.signal.hints
        surveyed = await self._by.store.agenda.survey()
        self._heeded = hints
        if surveyed and surveyed[0].seen_at is not None:
            self._by.clock.observe(surveyed[0].seen_at)
        await self.directory.learn({each.target for each in surveyed})
        self._gates.learn(surveyed)
        self._openings.learn(surveyed, self.directory.names.keys())

    def _until_due(self) -> Pause:
        now, seconds = self._by.now(), self._poll
        if self._openings.has_suspects(now):
            seconds = min(seconds, self._aside.again_in())
        next_due = self._openings.next_due(but_suspects_before=now)
        if next_due is not None:
            seconds = min(seconds, max((next_due - now).total_seconds(), 0.0))
        return Pause(seconds)

    async def _claim_and_start(
        self, slots: int, asks: list[ClaimRequest]
    ) -> tuple[list[ClaimRequest], list[Claimed], int]:
        """Claim what the gates let through: what was asked for, what came, how many started."""
        claimed: list[Claimed] = []
        self.runner.late.claims += 1
        try:
            asks = await self._gates.passing(asks)
            if asks:
                open_tokens = self._open_tokens()
                claimed = await self._claims.make(slots, asks, open_tokens)
            return asks, claimed, self.runner.start(claimed)
        finally:
            self.runner.late.claims += 1
            self._gates.claimed({each.target for each in claimed if each.id is not None})

    def _open_tokens(self) -> set[int]:
        return {given for _, given in self.runner.running} | self._settler.tokens()

    async def _claim_suspect(self, now: datetime) -> Pause:
        if not self._is_idle:
            return Pause(min(self._poll, self._aside.again_in()))
        self._suspects_turn = False
        asks, claimed, started = await self._claim_and_start(1, self._openings.suspect(now))
        self._openings.note(asks, claimed, 1)
        self.signal.came_short = True
        self.runner.is_alone = bool(started)
        if not started:
            self._aside.put_off()
        for each in claimed:
            foreign = self.directory.foreign.get(each.target)
            self._emit(SuspectRuns(delivery=str(each.id), crashes=each.crashes, namespace=foreign))
        return NOW if claimed else Pause(min(AGAIN_SECONDS, self._poll))

    async def next_due(self) -> datetime | None:
        """When the first lane that this worker could claim is due."""
        await self._survey()
        return self._openings.next_due()

    async def drain(self, seconds: float | None) -> int:
        """Wait for what runs, then have the rest handed back; returns how many those were."""
        return await self.runner.drain(seconds)

    def begin_anew(self) -> None:
        """After a lost lease."""
        self.runner.is_draining = False
        self._claims.abandon()
        self._aside.forget()

    async def let_go(self) -> None:
        """Hand back what was claimed without our knowing, a last time."""
        with contextlib.suppress(StoreUnavailable):
            await self._claims.hand_back(at_once=True)
