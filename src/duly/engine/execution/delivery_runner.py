"""Runs claimed deliveries until each has its outcome."""

from __future__ import annotations

import asyncio
from contextvars import Context
from datetime import timedelta
from itertools import zip_longest
from typing import Any

from duly.domain.deliveries.delivery import Claimed, Lane
from duly.domain.deliveries.outcomes import Failed, Outcome, Released, Settlement, Verdict, emptied
from duly.domain.events import AttemptFailed, DeliveryCancelled, LaneSkipped
from duly.engine.execution.execution import Execution
from duly.engine.execution.executor import Executor
from duly.engine.execution.settler import Settler
from duly.engine.execution.task_pool import Beginning, TaskPool
from duly.engine.lease import Lease
from duly.engine.loops import YieldOnce
from duly.engine.membership import Membership
from duly.engine.monitoring.backlog import LateAttempts
from duly.engine.targets.admission import AdmissionControl
from duly.engine.targets.directory import TargetDirectory
from duly.engine.work_signal import WorkSignal
from duly.errors import StoreUnavailable
from duly.ports import Emit
from duly.records.reason import Reason
from duly.tracebacks import traceback_text

BUSY_SECONDS = 0.25
CANCEL_SECONDS = (3.0, 1.0, 1.0)
"""How long tasks may take to end after each cancellation, the first and the repeated ones."""


class DeliveryRunner:
    """Runs claimed deliveries in tasks, passes their outcomes to the settler, and tracks them."""

    def __init__(
        self,
        executor: Executor,
        settler: Settler,
        directory: TargetDirectory,
        admission: AdmissionControl,
        membership: Membership,
        signal: WorkSignal,
        emit: Emit,
        *,
        grace: timedelta,
    ) -> None:
        self.late = LateAttempts()
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
        self._grace = grace
        self._running: set[tuple[Lane, int]] = set()
        self._executions: set[Execution] = set()
        self._tasks = TaskPool(self._run)
        self._ended = 0
        self._started_at = float("-inf")

    @property
    def running(self) -> int:
        """The number of lanes with a running attempt."""
        return len(self._running)

    def tokens(self) -> set[int]:
        """The tokens of running attempts."""
        return {token for _, token in self._running}

    def cancel(self, delivery: str, token: int) -> None:
        """Cancel the attempt of a delivery, if it runs here under this token."""
        for each in self._executions:
            if (each.claimed.id, each.claimed.token) == (delivery, token):
                each.cancel()

    def is_busy(self) -> bool:
        """Whether an attempt runs, or one was started a moment ago."""
        return (
            bool(self._running)
            or self._executor.store_clock.monotonic() - self._started_at < BUSY_SECONDS
        )

    async def let_finish(self, enough: int) -> None:
        """Let attempts that are about to end do so: a larger claim costs little more."""
        before = -1
        while before < self._ended < enough:
            before = self._ended
            await YieldOnce()
        self._ended = 0

    def start(self, claimed: list[Claimed]) -> int:
        """Start the claimed deliveries; returns their number."""
        whole = [each for each in claimed if each.id is not None]
        if len(whole) < len(claimed):
            self._pass_over(claimed)
        for each in whole:
            if each.followers and self._admission.is_guarded(each.target):
                # The gate admitted one delivery, not its followers.
                each.followers = None
        self._running.update((each.lane, each.token) for each in whole)
        for each in whole:
            self._admission.begin(each.target)
        self._tasks.start(whole)
        if claimed:
            self._started_at = self._executor.store_clock.monotonic()
        return len(whole)

    def _pass_over(self, claimed: list[Claimed]) -> None:
        for each in claimed:
            if each.id is None and each.position is not None:
                # A stream that became empty while a delivery was added and rolled back.
                self._settler.put(emptied(each, self._executor.now()))
            elif each.id is None:
                self._emit(LaneSkipped(lane=str(each.lane), problem="its delivery does not exist"))

    async def _run(self, claimed: Claimed, task: asyncio.Task[Any]) -> None:
        """Attempt a delivery, and its followers if it is the first of a run of its stream."""
        if claimed.followers:
            await self._run_in_turn((claimed, *claimed.followers), task)
        else:
            try:
                await self._attempt(claimed, task)
            except BaseException as error:
                self._settle_broken(claimed, error)
        self._finish(claimed)

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
            self._emit_failure(execution, settlement)
            self._admission.note(target, settlement)
        elif self._admission.has_to_report(target):
            self._admission.note(target, settlement)
        return goes_on

    def _note_lateness(self, execution: Execution) -> bool:
        """Report a late first attempt; whether this attempt, first or not, is late."""
        if execution.joins:
            return False  # it is late or not when its turn comes
        claimed = execution.claimed
        if not claimed.attempt and execution.started_at - claimed.due_at <= self._grace:
            self._settler.on_time[execution.foreign] += 1
            return False
        if (late := execution.lateness(self._grace)) is not None:
            self._emit(late)
        return execution.started_at - claimed.ready_at > self._grace

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

    def _emit_failure(self, execution: Execution, settlement: Settlement) -> None:
        if settlement.verdict is Verdict.CANCELLED:
            self._emit(
                DeliveryCancelled(
                    delivery=settlement.delivery,
                    target=execution.target,
                    attempt=settlement.attempt,
                    namespace=execution.foreign,
                )
            )
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
                    traceback=settlement.traceback,
                    namespace=execution.foreign,
                )
            )

    async def drain(self, seconds: float | None) -> int:
        """Wait for running attempts, then cancel and hand back the rest; returns their number.

        None waits without a limit. An attempt that goes on after its cancellation, such as a
        thread, counts as `running` and stays held, so that no other worker attempts it.
        """
        self.is_draining = seconds is not None
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
