"""Runs claimed deliveries until each has its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from datetime import timedelta
from itertools import zip_longest
from typing import Any

from duly.domain.deliveries.delivery import Claimed, Lane
from duly.domain.deliveries.outcomes import (
    HANDED_BACK,
    Cancelled,
    Failed,
    Outcome,
    Released,
    Settlement,
    Verdict,
    emptied,
)
from duly.domain.events import LaneSkipped
from duly.engine.execution.attempt_events import cancellation, failure
from duly.engine.execution.behind import Behind
from duly.engine.execution.execution import Execution
from duly.engine.execution.executor import Executor
from duly.engine.execution.lateness import Lateness
from duly.engine.execution.settler import Settler
from duly.engine.execution.task_pool import Beginning, TaskPool
from duly.engine.execution.waiting import LONGEST_HOLD_SECONDS
from duly.engine.lease import Lease
from duly.engine.loops import YieldOnce
from duly.engine.membership import Membership
from duly.engine.targets.admission import AdmissionControl
from duly.engine.targets.directory import TargetDirectory
from duly.engine.targets.pace import Pace
from duly.engine.work_signal import WorkSignal
from duly.errors import StoreUnavailable
from duly.ports import Emit
from duly.records.reason import Reason
from duly.tracebacks import traceback_text

BUSY_SECONDS = 0.25
CANCEL_SECONDS = (3.0, 1.0, 1.0)
"""How long tasks may take to end after each cancellation, the first and the repeated ones."""


class DeliveryRunner:
    """Runs claimed deliveries in tasks, passes their outcomes to the settler, and tracks them.

    It runs as many as there are slots, and holds the others ahead until a slot is free.
    """

    def __init__(
        self,
        executor: Executor,
        settler: Settler,
        directory: TargetDirectory,
        admission: AdmissionControl,
        membership: Membership,
        signal: WorkSignal,
        emit: Emit,
        pace: Pace,
        *,
        concurrency: int,
        grace: timedelta,
    ) -> None:
        self._lateness = Lateness(executor, settler, emit, grace)
        self._note_lateness = self._lateness.note
        self.late = self._lateness.running
        self.is_alone = self.is_draining = False
        self._executor = executor
        self._settler = settler
        self._directory = directory
        self._names, self._foreign = directory.names, directory.foreign
        self._admission = admission
        self._membership = membership
        self._signal = signal
        self._free_slot = signal.wake.set
        self._emit = emit
        self._monotonic = executor.store_clock.monotonic
        self._concurrency = concurrency
        self._pace = pace
        self._ended_by = pace.ended
        self._running: set[tuple[Lane, int]] = set()
        self._executions: set[Execution] = set()
        self._tasks = TaskPool(self._run, concurrency)
        self.behind = Behind(admission)
        """What is held for hosts, each behind the running attempts of its own."""
        self._ended = 0
        self._started_at = float("-inf")

    @property
    def running(self) -> int:
        """The number of lanes with a running attempt."""
        return min(len(self._running) - len(self.behind), self._concurrency)

    @property
    def held(self) -> int:
        """The number of lanes held ahead: claimed, but waiting for any slot."""
        return max(0, len(self._running) - len(self.behind) - self._concurrency)

    def tokens(self) -> set[int]:
        """The tokens of running attempts, and of what is held ahead."""
        return {token for _, token in self._running}

    def cancel(self, delivery: str, token: int) -> None:
        """Cancel the attempt of a delivery, if it runs or waits here under this token."""
        for each in self._executions:
            if (each.claimed.id, each.claimed.token) == (delivery, token):
                each.cancel()

        def is_it(claimed: Claimed) -> bool:
            return (claimed.id, claimed.token) == (delivery, token)

        waiting = self._tasks.waiting
        for claimed in (*waiting.take(len(waiting), is_it), *self.behind.take(is_it)):
            self._cancel_unstarted(claimed)

    def _cancel_unstarted(self, claimed: Claimed) -> None:
        self._give_up(claimed, Cancelled())
        target, foreign = self._names[claimed.target], self._foreign.get(claimed.target)
        self._emit(cancellation(claimed.id, target, claimed.attempt, foreign))

    def is_busy(self) -> bool:
        """Whether an attempt runs, or one was started a moment ago."""
        return bool(self._running) or self._monotonic() - self._started_at < BUSY_SECONDS

    async def let_finish(self, enough: int) -> None:
        """Let attempts that are about to end do so: a larger claim costs little more."""
        before = -1
        while before < self._ended < enough:
            before = self._ended
            await YieldOnce()
        self._ended = 0

    def start(self, claimed: list[Claimed]) -> int:
        """Start the claimed deliveries, or hold them until a slot is free; returns their number."""
        whole = [each for each in claimed if each.id is not None]
        if len(whole) < len(claimed):
            self._pass_over(claimed)
        for each in whole:
            if each.followers and self._admission.is_guarded(each.target):
                # The gate admitted one delivery, not its followers.
                each.followers = None
        self._running |= {(each.lane, each.token) for each in whole}
        self._admission.begin([each.target for each in whole])
        if claimed:
            self._started_at = self._monotonic()
            self._lateness.look_at_clock()
        self._start_in_time(self.behind.hold(whole, self._started_at))
        if any(each.crashes for each in whole):
            # If this worker dies, all that it holds may be the cause. What a dead one held before
            # would run alone then, although it was not even started.
            self._hand_back(lambda each: each.crashes > 0)
        return len(whole)

    def hand_back_held(self) -> None:
        """Hand back all that is held ahead."""
        self._hand_back(lambda _: True)

    def hand_back_late(self) -> None:
        """Hand back what is held ahead for so long that another worker may be faster."""
        now, waiting = self._monotonic(), self._tasks.waiting
        late = self.behind.take_late(now)
        if waiting.is_late(now):
            before = now - LONGEST_HOLD_SECONDS
            late += waiting.take(self.held, lambda each: waiting.since(each) <= before)
        for target in {each.target for each in late}:
            self._pace.forget(target)
        for claimed in late:
            self._give_up(claimed, HANDED_BACK)

    def _hand_back(self, which: Callable[[Claimed], bool]) -> None:
        for claimed in (*self._tasks.waiting.take(self.held, which), *self.behind.take(which)):
            self._give_up(claimed, HANDED_BACK)

    def _give_up(self, claimed: Claimed, outcome: Outcome) -> None:
        """Settle a delivery that was not started; it says nothing about the pace of its target."""
        self._running.discard((claimed.lane, claimed.token))
        self._admission.drop(claimed.target)
        self._admission.unclear(claimed.target, timedelta())
        self.is_alone = False
        self._settle_for(claimed, outcome)
        self._free_slot()

    def _start_in_time(self, claimed: list[Claimed]) -> None:
        """Start deliveries at once, or when the rate of their target lets them."""
        pacing = self._admission.pacing
        if not pacing.is_used:
            self._tasks.start(claimed, self._started_at)
            return
        for seconds, some in pacing.by_delay(claimed).items():
            if seconds:
                self._tasks.start_later(seconds, some)
            else:
                self._tasks.start(some, self._started_at)

    def _pass_over(self, claimed: list[Claimed]) -> None:
        for each in claimed:
            if each.id is None and each.position is not None:
                # A stream that became empty while a delivery was added and rolled back.
                self._settler.put(emptied(each, self._executor.now_us()))
            elif each.id is None:
                self._emit(LaneSkipped(lane=str(each.lane), problem="its delivery does not exist"))

    async def _run(self, claimed: Claimed, task: asyncio.Task[Any]) -> None:
        """Attempt a delivery, and its followers if it is the first of a run of its stream."""
        if not self._membership.lease.holds():
            # It waited, or the event loop was blocked: others may have it by now.
            self._give_up(claimed, HANDED_BACK)
            self._start_behind(claimed.target)
            return
        if claimed.followers:
            await self._run_in_turn((claimed, *claimed.followers), task)
        else:
            try:
                await self._attempt(claimed, task)
            except BaseException as error:
                self._settle_broken(claimed, error)
        self._finish(claimed)
        if self.behind.queues:
            self._start_behind(claimed.target)

    def _start_behind(self, target: int) -> None:
        """Start what waits for the slot that an attempt of the target has left."""
        if target in self.behind.queues and (some := self.behind.next_of(target)):
            self._tasks.go_on(some, self._monotonic())

    async def _run_in_turn(self, line: tuple[Claimed, ...], task: asyncio.Task[Any]) -> None:
        held, beginning = self._membership.lease, Beginning()
        beginning.note(task)
        for current, following in zip_longest(line, line[1:]):
            try:
                if beginning.is_still_so(task):
                    goes_on = await self._attempt(current, task, following, held)
                else:
                    # A handler left something behind: the next attempt gets a new task.
                    context = beginning.context
                    goes_on = await self._attempt_afresh(context, current, following, held)
            except BaseException as error:
                self._settle_broken(current, error)
                break
            if not goes_on:
                break

    def _settle_broken(self, claimed: Claimed, error: BaseException) -> None:
        """Settle an attempt that raised: cancelled, the store is unavailable, or a bug in duly."""
        if isinstance(error, asyncio.CancelledError | StoreUnavailable):
            self._settle_for(claimed, Released())
        else:
            problem = f"{type(error).__name__}: {error}"
            failed = Failed(Reason.UNKNOWN, problem, traceback=traceback_text(error, own=True))
            self._settle_for(claimed, failed)

    def _finish(self, claimed: Claimed) -> None:
        self._running.discard((claimed.lane, claimed.token))
        self._admission.end(claimed.target)
        self.is_alone = False
        self._ended += 1
        self._ended_by[claimed.target] += 1
        self._free_slot()

    async def _attempt_afresh(
        self, context: Context, claimed: Claimed, following: Claimed | None, held: Lease
    ) -> bool:
        async def attempt() -> bool:
            task = asyncio.current_task()
            assert task is not None
            return await self._attempt(claimed, task, following, held)

        task = asyncio.get_running_loop().create_task(attempt(), context=context)
        try:
            return await task
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            # It had ended, and its outcome was passed on, before this task was cancelled.
            return task.result()

    async def _attempt(
        self,
        claimed: Claimed,
        task: asyncio.Task[Any],
        following: Claimed | None = None,
        held: Lease | None = None,
    ) -> bool:
        """Make the attempt; whether to go on with the next one of its run."""
        target = claimed.target
        foreign = self._foreign.get(target)
        execution = Execution(self._executor, claimed, self._names[target], task, foreign)
        is_late = self._note_lateness(execution)
        if is_late:
            self.late.begin()
        self._executions.add(execution)
        try:
            settlement = await execution.run()
        finally:
            self._executions.discard(execution)
            if is_late:
                self.late.end()
        if settlement is None:
            if execution.is_enlisted:
                self._signal.hint()
            else:
                self._settler.count_own(execution.written)
            if execution.written is not None:
                self._admission.succeeded(target)
            else:
                self._admission.unclear(target, timedelta())
            return False
        goes_on = held is not None and self._goes_on(settlement, following, held)
        self._settler.put(settlement)
        if settlement.verdict is not Verdict.COMPLETED:
            if (event := failure(execution, settlement)) is not None:
                self._emit(event)
            self._admission.note(target, settlement)
            if self._admission.has_to_report(target):
                # It may be about to shut: no more of it is attempted than what runs already.
                for each in self.behind.take_all(target):
                    self._give_up(each, HANDED_BACK)
        elif self._admission.has_to_report(target):
            self._admission.note(target, settlement)
        return goes_on

    def _goes_on(self, settlement: Settlement, following: Claimed | None, held: Lease) -> bool:
        if following is None or following.position is None:
            return False
        if settlement.verdict is not Verdict.COMPLETED or self.is_draining or held.draining:
            return False
        # After a new registration these lanes belong to others.
        if self._membership.lease is not held or not held.holds():
            return False
        settlement.follower = (following.id, following.position)
        return True

    def _settle_for(self, claimed: Claimed, outcome: Outcome) -> None:
        target = self._names[claimed.target]
        namespace = self._directory.namespace(claimed.target)
        self._settler.put(self._executor.decide(claimed, target, namespace, outcome, None))

    async def drain(self, seconds: float | None) -> int:
        """Wait for running attempts, then cancel and hand back the rest; returns their number.

        What is held ahead is handed back first of all.
        None waits without a limit. An attempt that goes on after its cancellation, such as a
        thread, counts as `running` and stays held, so that no other worker attempts it.
        """
        self.is_draining = seconds is not None
        self.hand_back_held()
        if seconds is None:
            # Otherwise each that is queued would get a task, and one task may run them all.
            await self.let_finish(self._concurrency)
        self._tasks.start_all()
        if self._tasks.tasks:
            await asyncio.wait(set(self._tasks.tasks), timeout=seconds)
        left = set(self._tasks.tasks)
        going_on = await self._end(left)
        for claimed in self._tasks.take_back():
            self._finish(claimed)
            self._settle_for(claimed, Released())
        return len(left) - going_on

    async def _end(self, tasks: set[asyncio.Task[None]]) -> int:
        """Cancel repeatedly; returns how many tasks go on nevertheless."""
        self._executor.is_stopping = True
        try:
            for seconds in CANCEL_SECONDS:
                for task in tasks:
                    task.cancel()
                if tasks:
                    _, tasks = await asyncio.wait(tasks, timeout=seconds)
        finally:
            self._executor.is_stopping = False
        return len(tasks)
