"""One attempt of a delivery, from start to settlement."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.identifiers import worker_of
from duly.domain.deliveries.outcomes import (
    STORE_AWAY,
    Cancelled,
    Completed,
    Deferred,
    Expired,
    Failed,
    Outcome,
    Overlapped,
    Released,
    Settlement,
    complete,
)
from duly.domain.events import DeliveryLate
from duly.domain.moments import moment_at
from duly.domain.schedules.schedule import decode_occasion
from duly.domain.streams.policy import stream_of_schedule
from duly.engine.execution.executor import Executor
from duly.engine.execution.step_log import StepLog
from duly.errors import Conflict, LeaseLost, StoreUnavailable
from duly.ports import (
    RUNNING,
    Joined,
    Message,
    OpenTransaction,
    Report,
    Store,
    Transaction,
)
from duly.records.reason import Reason
from duly.records.schedule import Overlap
from duly.tracebacks import traceback_text

CANCELLED = Cancelled()
TURN_SECONDS = 0.25
"""How soon an occurrence is tried again that has to wait for an earlier one."""


class Execution:
    """One attempt. It returns a settlement, or None if a transaction wrote it already."""

    # Defaults of the class: most attempts never set them, and there is one object for each.
    is_cancelled = has_obeyed = is_enlisted = _is_over = False
    written: Settlement | None = None
    _reported: Report | None = None
    _transaction: OpenTransaction | None = None
    _turn: asyncio.Lock | None = None
    _steps: StepLog | None = None
    _overlap: Overlap | None = None

    def __init__(
        self,
        by: Executor,
        claimed: Claimed,
        target: str,
        task: asyncio.Task[Any],
        foreign: str | None = None,
    ) -> None:
        self._executor = by
        self.foreign = foreign
        """Its namespace if it is not the worker's own."""
        self.claimed = claimed
        self.target = target
        self.task = task
        self.started_us = by.now_us()
        self.joins = claimed.joins
        """Whether it is not attempted now, but appended to a stream."""
        if claimed.occasion is not None:
            self._overlap = decode_occasion(claimed.occasion).overlap
            if self._overlap is Overlap.QUEUE and claimed.stream is None:
                self.joins = True

    def lateness(self, grace: timedelta) -> DeliveryLate | None:
        """The event for a first attempt that starts more than `grace` after it was due."""
        claimed, started_at = self.claimed, self.started_at
        late_by = started_at - claimed.due_at
        if late_by <= grace or claimed.attempt:
            return None
        return DeliveryLate(
            delivery=claimed.id,
            target=self.target,
            schedule=self.schedule,
            stream=claimed.stream,
            attempt=1,
            due_at=claimed.due_at,
            started_at=started_at,
            minutes_late=round(late_by.total_seconds() / 60, 1),
            namespace=self.foreign,
        )

    @property
    def started_at(self) -> datetime:
        """When it started, by the store's clock."""
        return moment_at(self.started_us)

    @property
    def namespace(self) -> str:
        """The delivery's namespace."""
        return self.foreign or self._executor.store.namespace

    @property
    def _store(self) -> Store:
        store = self._executor.store
        return store if self.foreign is None else store.within(self.foreign)

    @property
    def schedule(self) -> str | None:
        """The schedule that made it, if any."""
        occasion = self.claimed.occasion
        return None if occasion is None else decode_occasion(occasion).schedule

    @property
    def _own_stream(self) -> str:
        assert self.schedule is not None
        return stream_of_schedule(self.schedule)

    async def begin(self) -> Transaction:
        """The transaction in which the completion of the attempt will be written."""
        self.refuse_when_over()
        if self._transaction is None:
            # Concurrent statements of a handler share one transaction.
            async with self.turn:
                if self._transaction is None:
                    await self._begin()
        assert self._transaction is not None
        return self._transaction

    async def _begin(self) -> None:
        if self.claimed.position is not None:
            # The deliveries before it in its stream must be settled first.
            await self._executor.settler.written(self.claimed.lane, self.claimed.token)
        transaction = await self._executor.store.begin(worker_of(self.claimed.token))
        if self._is_over:
            # The handler returned without awaiting this: nothing else would end the transaction.
            await transaction.roll_back()
        self.refuse_when_over()
        self._transaction = transaction

    async def receive(self, message_id: str, consumer: str) -> Message:
        """Receive a message in that transaction, or learn that it was handled already."""
        return await self._store.inbox.receive(await self.begin(), message_id, consumer)

    @property
    def turn(self) -> asyncio.Lock:
        """Held while its transaction begins, or while something is written beside it."""
        self._turn = self._turn or asyncio.Lock()
        return self._turn

    @property
    def is_in_transaction(self) -> bool:
        """Whether its transaction is open."""
        return self._transaction is not None

    @property
    def is_stopping(self) -> bool:
        """Whether the worker is cancelling its attempts."""
        return self._executor.is_stopping

    @property
    def steps(self) -> StepLog:
        """The delivery's steps."""
        self._steps = self._steps or StepLog(self._executor.store.steps, self)
        return self._steps

    def now(self) -> datetime:
        """The current time by the store's clock."""
        return self._executor.now()

    def cancel(self) -> None:
        """Cancel its task, once: somebody asked to cancel the delivery."""
        if not (self.is_cancelled or self._is_over or self.joins):
            self.is_cancelled = True
            self.task.cancel()

    def report(self, progress: float, note: str | None) -> None:
        """Report how far it is; from any thread."""
        self.refuse_when_over()
        self._report(replace(self._known, progress=progress, note=note, reported_at=self.now()))

    def report_overrun(self) -> None:
        """Report that it runs past its deadline and cannot be stopped."""
        self._report(replace(self._known, overran_at=self.now()))

    @property
    def _known(self) -> Report:
        """What it has reported so far."""
        claimed = self.claimed
        return self._reported or Report(delivery=claimed.id, token=claimed.token)

    def _report(self, report: Report) -> None:
        self._reported = report
        self._executor.reports[report.delivery, report.token] = report

    def is_store_away(self, error: BaseException) -> bool:
        """Whether the error says that this store is unavailable, and nothing else."""
        if isinstance(error, BaseExceptionGroup):
            return all(self.is_store_away(each) for each in error.exceptions)
        if not isinstance(error, StoreUnavailable) or error.source is None:
            return False
        return error.source == self._executor.store.source

    def refuse_when_over(self) -> None:
        """Conflict if the attempt already has its outcome."""
        if self._is_over:
            raise Conflict("the attempt has ended, and its transaction and steps with it")

    async def run(self) -> Settlement | None:
        """Make the attempt; None if its transaction settled it, or its lease was lost."""
        if self.joins:
            return await self._join()
        before = RUNNING.set(self)
        try:
            if self._overlap is None and self.claimed.expires_on is None:
                outcome = await self._executor.transport.attempt(self)
            else:
                outcome = await self._attempt_if_wanted()
        except asyncio.CancelledError:
            outcome = Released()
        except StoreUnavailable:
            outcome = STORE_AWAY
        except Exception as error:
            # A bug in the transport: the delivery fails with it, visibly.
            problem = f"{type(error).__name__}: {error}"
            outcome = Failed(Reason.UNKNOWN, problem, traceback=traceback_text(error, own=True))
        finally:
            self._is_over = True
            RUNNING.reset(before)
        if self.is_cancelled:
            # Its task may run other deliveries after it.
            self.task.uncancel()
            outcome = self._when_cancelled(outcome)
        if self._transaction is not None:
            return await self._end_transaction(self._transaction, outcome)
        if isinstance(outcome, Completed) and self._steps is None:
            return complete(self.claimed, self.started_us, self._executor.now_us(), outcome.answer)
        return self._decide(outcome)

    async def _join(self) -> Settlement | None:
        """Append it to its stream now that it is due; it runs when its turn comes."""
        streams = self._store.streams
        try:
            if self.claimed.joins:
                self.is_enlisted = await streams.enlist(self.claimed)
            elif (how := await streams.join(self.claimed, self._own_stream)) is Joined.MUST_WAIT:
                return self._decide(Deferred(TURN_SECONDS))
            else:
                self.is_enlisted = how is Joined.QUEUED
        except (StoreUnavailable, asyncio.CancelledError):
            # It may have joined; then handing back does nothing.
            return self._decide(Released())
        return None

    async def _attempt_if_wanted(self) -> Outcome:
        expires_on = self.claimed.expires_on
        if expires_on is not None and expires_on <= self._executor.store_clock.monotonic():
            return Expired()
        if self._overlap is Overlap.SKIP and await self._overlaps():
            return Overlapped()
        return await self._executor.transport.attempt(self)

    def _when_cancelled(self, outcome: Outcome) -> Outcome:
        """The outcome of an attempt that was asked to cancel; what has completed stays so."""
        match outcome:
            case Failed():
                return Cancelled(outcome.error, outcome.traceback, outcome.exception)
            case Released():
                return CANCELLED
            case Completed(has_result=False) if self.has_obeyed:
                return CANCELLED
        return outcome

    async def _overlaps(self) -> bool:
        """Whether an earlier occurrence of its schedule is unfinished."""
        if self.claimed.attempt:
            return False
        schedules = self._store.schedules
        return await schedules.unfinished_before(self.claimed.id, self._own_stream) > 0

    async def _end_transaction(
        self, transaction: OpenTransaction, outcome: Outcome
    ) -> Settlement | None:
        if not isinstance(outcome, Completed):
            # The outcome is known even if this is cancelled; a lost connection rolls back as well.
            with contextlib.suppress(StoreUnavailable, asyncio.CancelledError):
                await transaction.roll_back()
            return self._decide(outcome)
        settlement = self._decide(outcome, enclosed=True)
        try:
            await transaction.complete(settlement)
        except LeaseLost:
            return None
        except (StoreUnavailable, asyncio.CancelledError):
            # It may have been committed; then this does nothing.
            return self._decide(CANCELLED if self.is_cancelled else Released())
        except Exception as error:
            return self._decide(Failed(Reason.HANDLER_EXCEPTION, f"at its commit: {error}"))
        self.written = settlement
        return None

    def _decide(self, outcome: Outcome, *, enclosed: bool = False) -> Settlement:
        settlement = self._executor.decide(
            self.claimed, self.target, self.namespace, outcome, self.started_us
        )
        if self._steps is not None:
            settlement.steps = self._steps.unwritten(enclosed=enclosed)
        return settlement
