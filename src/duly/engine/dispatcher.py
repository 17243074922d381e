"""Claiming due lanes for the free slots of this worker, and starting what was claimed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from datetime import datetime, timedelta
from typing import Any

from duly.domain.delivery import Claimed, Lane
from duly.domain.errors import StoreUnavailable
from duly.domain.events import (
    AttemptFailed,
    RowPassedOver,
    SuspectRuns,
)
from duly.domain.failures import Reason
from duly.domain.outcomes import Failed, Outcome, Released, Settlement, Verdict, emptied
from duly.engine.carriers import Carriers
from duly.engine.claims import Claims
from duly.engine.execution import Execution, Executor
from duly.engine.gates import Gates
from duly.engine.known import Known
from duly.engine.lease import Lease
from duly.engine.loops import NOW, Breath, Emit, Pause
from duly.engine.openings import Openings
from duly.engine.settler import Settler
from duly.ports import Ask

UNTIL_WOKEN = Pause(3600.0)
SURVEY_SECONDS = 1.0
AGAIN_SECONDS = 0.05
BUSY_SECONDS = 0.25
CANCEL_SECONDS = 5.0
AWAY = timedelta(seconds=30)


class Dispatcher:
    """Claims at most its free slots, starts a task for each delivery, hands outcomes on."""

    name = "dispatcher"

    def __init__(
        self,
        executor: Executor,
        settler: Settler,
        lease: Lease,
        gates: Gates,
        emit: Emit,
        *,
        concurrency: int,
        poll: float,
        grace: timedelta,
    ) -> None:
        self.wake = asyncio.Event()
        self.on_progress: Callable[[], None] = self.wake.set
        self._by = executor
        self._settler = settler
        self.lease = lease
        self._emit = emit
        self._concurrency = concurrency
        self._poll = poll
        self._grace = grace
        self._gates = gates
        self._openings = Openings(gates)
        self.known = Known(executor.store.targets, executor.transport, gates.know)
        settler.names = self.known.names
        self.on_return: Callable[[], Awaitable[None]] | None = None
        self._looked_at: datetime | None = None
        self._carriers = Carriers(self._run)
        self._running: set[tuple[Lane, int]] = set()
        self._surveyed_at = float("-inf")
        self._came_short = True
        self._hints = self._heeded = 0
        self._claims = Claims(executor.store.agenda, executor.clock, emit)
        self._alone = self.is_draining = False
        self._suspects_turn = True
        self._ended = 0

    @property
    def running(self) -> int:
        """How many deliveries are being attempted."""
        return len(self._running)

    @property
    def wakeups(self) -> int:
        """How often something was said to be due."""
        return self._hints

    @property
    def is_busy(self) -> bool:
        """Whether anything is being attempted, or was a moment ago."""
        now = self._by.clock.monotonic()
        return bool(self._running) or now - self._claims.last_at < BUSY_SECONDS

    def hinted(self) -> None:
        """Something may be due: look at once."""
        self._came_short = True
        self._hints += 1
        self.wake.set()

    async def tick(self) -> Pause:
        """Survey if need be, claim once, start what came."""
        if not self.lease.holds() or self.lease.draining:
            return Pause(self._poll)
        if await self._claims.hand_back():
            self.hinted()
        await self._notice_absence()
        await self._gather()
        free = self._free()
        if free <= 0 or self._alone:
            return UNTIL_WOKEN
        if self._needs_survey():
            await self._survey()
        now = self._by.now()
        if self._suspects_turn and self._openings.has_suspects(now):
            return await self._claim_suspect(now)
        return await self._claim_openings(free, now)

    async def _gather(self) -> None:
        """Let what is about to end do so first: a claim for many costs little more than for one."""
        before = -1
        while before < self._ended < self._concurrency // 4:
            before = self._ended
            await Breath()
        self._ended = 0

    async def _notice_absence(self) -> None:
        """After a sleep of the machine or a step of its clock, what was missed is planned first."""
        now, before = self._by.now(), self._looked_at
        if before is not None and now - before > AWAY and self.on_return is not None:
            await self.on_return()
        self._looked_at = now

    async def _claim_openings(self, free: int, now: datetime) -> Pause:
        # Suspects and the rest take turns, or a hundred of them would hold up everyone.
        self._suspects_turn = True
        asks = self._openings.asks(free, now)
        if not asks:
            # What was hinted at while we looked or claimed may be for others than the crowded.
            missed = self._hints > self._heeded
            self._came_short = missed or not self._openings.is_crowded(now)
            return NOW if missed or self._openings.has_suspects(now) else self._until_due()
        asks, claimed, _ = await self._claim_and_start(free, asks)
        more = self._openings.note(asks, claimed, free)
        self._came_short = not more
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
        free = self._concurrency - len(self._running) - unwritten
        # At most half at a time, so that one half runs while the other is being claimed.
        return min(free, (self._concurrency + 1) // 2)

    def _needs_survey(self) -> bool:
        return self._came_short or (
            self._by.clock.monotonic() - self._surveyed_at >= SURVEY_SECONDS
        )

    async def _survey(self) -> None:
        self._surveyed_at, hints = self._by.clock.monotonic(), self._hints
        surveyed = await self._by.store.agenda.survey()
        self._heeded = hints
        if surveyed and surveyed[0].seen_at is not None:
            self._by.skew = surveyed[0].seen_at - self._by.clock.now()
        await self.known.learn({each.target for each in surveyed})
        self._gates.learn(surveyed)
        self._openings.learn(surveyed, self.known.names.keys())

    def _until_due(self) -> Pause:
        next_due = self._openings.next_due()
        if next_due is None:
            return Pause(self._poll)
        seconds = (next_due - self._by.now()).total_seconds()
        return Pause(min(max(seconds, 0.0), self._poll))

    async def _claim_and_start(
        self, slots: int, asks: list[Ask]
    ) -> tuple[list[Ask], list[Claimed], int]:
        """Claim what the gates let through: what was asked for, what came, how many started."""
        claimed: list[Claimed] = []
        try:
            asks = await self._gates.passing(asks)
            if asks:
                open_tokens = self._open_tokens()
                claimed = await self._claims.make(slots, asks, lambda: self.lease, open_tokens)
            return asks, claimed, self._start(claimed)
        finally:
            self._gates.claimed({each.target for each in claimed if each.id is not None})

    def _open_tokens(self) -> set[int]:
        return {given for _, given in self._running} | self._settler.tokens()

    async def _claim_suspect(self, now: datetime) -> Pause:
        if self._running:
            return Pause(self._poll)
        self._suspects_turn = False
        asks, claimed, started = await self._claim_and_start(1, self._openings.suspect(now))
        self._openings.note(asks, claimed, 1)
        self._came_short = True
        self._alone = bool(started)
        for each in claimed:
            self._emit(SuspectRuns(delivery=str(each.id), crashes=each.crashes))
        return NOW if claimed else Pause(min(AGAIN_SECONDS, self._poll))

    def _start(self, claimed: list[Claimed]) -> int:
        whole = [each for each in claimed if each.id is not None]
        if len(whole) < len(claimed):
            self._pass_over(claimed)
        for each in whole:
            if each.followers and self._gates.is_guarded(each.target):
                # The gate let one through, not all that stand behind it.
                each.followers = None
        self._running.update((each.lane, each.token) for each in whole)
        for each in whole:
            self._gates.begin(each.target)
        self._carriers.start(whole)
        return len(whole)

    def _pass_over(self, claimed: list[Claimed]) -> None:
        for each in claimed:
            if each.id is None and each.position is not None:
                # A stream whose last one was done while somebody added to it, in vain.
                self._settler.put(emptied(each, self._by.now()))
            elif each.id is None:
                self._emit(
                    RowPassedOver(lane=str(each.lane), problem="its delivery is not on the books")
                )

    async def _run(self, claimed: Claimed, task: asyncio.Task[Any]) -> None:
        """Attempt it, and if it heads a run of its stream those behind it, each when it is done."""
        held, behind = self.lease, claimed.followers or []
        fresh = copy_context() if behind else None
        goes_on = True
        for place, current in enumerate((claimed, *behind)):
            if not goes_on:
                break
            following = behind[place] if place < len(behind) else None
            try:
                if fresh is None or copy_context() == fresh:
                    goes_on = await self._attempt(current, task, following, held)
                else:
                    # Each finds the task as if it were new.
                    goes_on = await self._attempt_afresh(fresh.copy(), current, following, held)
            except BaseException as error:
                problem = f"{type(error).__name__}: {error}"
                self._settle_for(current, Failed(Reason.UNKNOWN, problem))
                goes_on = False
        self._over(claimed)

    def _over(self, claimed: Claimed) -> None:
        self._running.discard((claimed.lane, claimed.token))
        self._gates.end(claimed.target)
        self._alone = False
        self._ended += 1
        self.on_progress()

    async def _attempt_afresh(
        self, context: Context, claimed: Claimed, following: Claimed | None, held: Lease
    ) -> bool:
        async def attempt() -> bool:
            task = asyncio.current_task()
            assert task is not None
            return await self._attempt(claimed, task, following, held)

        return await asyncio.get_running_loop().create_task(attempt(), context=context)

    async def _attempt(
        self, claimed: Claimed, task: asyncio.Task[Any], following: Claimed | None, held: Lease
    ) -> bool:
        """Make the attempt; whether whoever follows in its run is attempted next."""
        execution = Execution(self._by, claimed, self.known.names[claimed.target], task)
        if execution.joins:
            pass  # whether it is late shows when it has its turn
        elif (late := execution.lateness(self._grace)) is not None:
            self._emit(late)
        elif not claimed.attempt:
            self._settler.punctual += 1
        settlement = await execution.run()
        if settlement is None:
            if execution.is_enlisted:
                self.hinted()
            else:
                self._settler.count_own(execution.written)
            if execution.written is not None:
                self._gates.succeeded(claimed.target)
            else:
                self._gates.unclear(claimed.target, timedelta())
            return False
        goes_on = self._goes_on(settlement, following, held)
        self._settler.put(settlement)
        target = claimed.target
        if settlement.verdict is not Verdict.COMPLETED:
            self._tell(execution, settlement)
            self._gates.note(target, settlement)
        elif self._gates.cares(target):
            self._gates.note(target, settlement)
        return goes_on

    def _goes_on(self, settlement: Settlement, following: Claimed | None, held: Lease) -> bool:
        if following is None or following.position is None:
            return False
        if settlement.verdict is not Verdict.COMPLETED or self.is_draining or held.draining:
            return False
        # The lease may be another by now, whose lanes these are not.
        if self.lease is not held or not held.holds():
            return False
        settlement.follower = (following.id, following.position)
        return True

    def _settle_for(self, claimed: Claimed, outcome: Outcome) -> None:
        target = self.known.names[claimed.target]
        self._settler.put(self._by.decide(claimed, target, outcome, None))

    def _tell(self, execution: Execution, settlement: Settlement) -> None:
        if settlement.verdict in (Verdict.RETRY, Verdict.DEAD):
            self._emit(
                AttemptFailed(
                    delivery=settlement.delivery,
                    target=execution.target,
                    attempt=settlement.attempt,
                    reason=str(settlement.reason),
                    error=settlement.error or "",
                    again_in=settlement.wait,
                    schedule=execution.schedule,
                    stream=execution.claimed.stream,
                )
            )

    async def next_due(self) -> datetime | None:
        """When the first lane that this worker could claim is due."""
        await self._survey()
        return self._openings.next_due()

    async def drain(self, seconds: float | None) -> int:
        """Wait for what runs, then have the rest handed back; returns how many those were.

        None waits for as long as it takes.
        """
        self.is_draining = seconds is not None
        self._carriers.spread()
        if self._carriers.tasks:
            await asyncio.wait(set(self._carriers.tasks), timeout=seconds)
        left = set(self._carriers.tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CANCEL_SECONDS)
        for claimed in self._carriers.take_back():
            self._over(claimed)
            self._settle_for(claimed, Released())
        return len(left)

    def begin_anew(self) -> None:
        """After a lost lease."""
        self.is_draining = False
        self._claims.abandon()

    async def let_go(self) -> None:
        """Hand back what was claimed without our knowing, a last time."""
        with contextlib.suppress(StoreUnavailable):
            await self._claims.hand_back(at_once=True)
