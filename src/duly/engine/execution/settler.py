"""Writes outcomes in batches: those that arrive during one write make up the next batch."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from duly.domain.deliveries.delivery import Lane
from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.events import BatchSettled, LaneSkipped, SettleRefused
from duly.engine.execution.batch_events import Call, batch_event
from duly.engine.loops import NOW, UNTIL_WOKEN, Pause, YieldOnce
from duly.engine.targets.directory import TargetDirectory
from duly.engine.work_signal import WorkSignal
from duly.errors import SettlementRefused
from duly.ports import Agenda, Clock, Emit

MOST_IN_ONE_CALL = 1000
ENOUGH = 32
Observer = Callable[[Sequence[Settlement], TargetDirectory], None]
"""Called with written settlements and the directory of their targets."""
STILL_OPEN = frozenset({Verdict.RETRY, Verdict.RELEASED, Verdict.RECLAIMED, Verdict.DEFERRED})


def _leaves_work(settlement: Settlement) -> bool:
    """Whether a delivery may be due now: itself, or one that waited for its unique key."""
    return settlement.verdict in STILL_OPEN or settlement.unique_key is not None


class Settler:
    """Collects outcomes, writes them, and reports those that the store refused.

    There is no delay: at rest an outcome is written at once, under load many share a commit.
    With `writes_on_demand` no loop writes, only `written` and `flush`.
    """

    name = "settler"

    def __init__(
        self,
        agenda: Agenda,
        clock: Clock,
        emit: Emit,
        directory: TargetDirectory,
        signal: WorkSignal,
        observers: Sequence[Observer] = (),
        *,
        writes_on_demand: bool = False,
    ) -> None:
        self.wake = asyncio.Event()
        self.on_time: Counter[str | None] = Counter()
        """First attempts that started on time since the last report, by foreign namespace."""
        self._agenda = agenda
        self._clock = clock
        self._emit = emit
        self._directory = directory
        self._signal = signal
        self._observers = observers
        self._writes_on_demand = writes_on_demand
        self._waiting: list[Settlement] = []
        self._doubtful: set[tuple[Lane, int]] = set()
        self._writing: list[Settlement] = []
        self._written = asyncio.Event()
        self._on_demand = asyncio.Lock()

    def put(self, settlement: Settlement) -> None:
        """Add an outcome to be written."""
        self._waiting.append(settlement)
        self.wake.set()

    def count_own(self, settlement: Settlement | None) -> None:
        """Count an outcome that a handler's transaction wrote; None if it was refused."""
        if settlement is None:
            self._emit(BatchSettled(refused=1))
        else:
            self._emit_batches([settlement], Call())
            self._notify([settlement])
            if _leaves_work(settlement):
                self._signal.hint()

    @property
    def unsettled(self) -> int:
        """The number of outcomes that are not written yet."""
        return len(self._waiting) + len(self._writing)

    def tokens(self) -> set[int]:
        """The tokens of outcomes that are not written yet."""
        return {each.token for each in self._waiting} | {each.token for each in self._writing}

    async def written(self, lane: Lane, token: int) -> None:
        """Wait until no outcome of that lane is unwritten; if no loop writes, write it."""
        if self._writes_on_demand:
            async with self._on_demand:
                await self.flush()
            return
        while any(
            (each.lane, each.token) == (lane, token) for each in (*self._waiting, *self._writing)
        ):
            self._written.clear()
            await self._written.wait()

    async def tick(self) -> Pause:
        """Write one batch."""
        await self._gather()
        batch = self._waiting[:MOST_IN_ONE_CALL]
        if not batch:
            return UNTIL_WOKEN
        del self._waiting[: len(batch)]
        self._writing, asked_at = batch, self._clock.monotonic()
        try:
            applied = await self._settle(batch)
        except BaseException:
            self._waiting[:0] = batch
            # The answer may have been lost after the commit, so a refusal proves nothing.
            self._doubtful.update((each.lane, each.token) for each in batch)
            raise
        finally:
            self._writing = []
            self._written.set()
        self._report(batch, applied, self._clock.monotonic() - asked_at)
        self._signal.progress(any(map(_leaves_work, batch)))
        return NOW if self._waiting else UNTIL_WOKEN

    async def _gather(self) -> None:
        """Let attempts that are about to end join: a batch costs little more than one outcome."""
        before = 0
        while before < len(self._waiting) < ENOUGH:
            before = len(self._waiting)
            await YieldOnce()

    async def _settle(self, batch: list[Settlement]) -> set[Lane]:
        try:
            return await self._agenda.settle(batch)
        except SettlementRefused:
            # One settlement is invalid; it must not hold up the others.
            return await self._settle_each(batch)

    async def _settle_each(self, batch: list[Settlement]) -> set[Lane]:
        applied: set[Lane] = set()
        for each in batch:
            try:
                applied |= await self._agenda.settle([each])
            except SettlementRefused as error:
                self._emit(LaneSkipped(lane=str(each.lane), problem=f"not settled: {error}"))
        return applied

    def _report(self, batch: list[Settlement], applied: set[Lane], seconds: float) -> None:
        written = [each for each in batch if each.lane in applied]
        if len(written) < len(batch):
            written = self._undoubted(batch, applied)
        if self._doubtful:
            self._doubtful.difference_update((each.lane, each.token) for each in batch)
        self._notify(written)
        self._emit_batches(written, Call(refused=len(batch) - len(written), seconds=seconds))

    def _notify(self, written: Sequence[Settlement]) -> None:
        for observer in self._observers:
            observer(written, self._directory)

    def _emit_batches(self, written: list[Settlement], call: Call) -> None:
        """Emit one event for the worker's own namespace, and one for each other namespace."""
        names, foreign = self._directory.names, self._directory.foreign
        theirs: dict[str, list[Settlement]] = {}
        if foreign:
            for each in written:
                if (namespace := foreign.get(each.target)) is not None:
                    theirs.setdefault(namespace, []).append(each)
        if theirs:
            written = [each for each in written if each.target not in foreign]
        on_time, self.on_time = self.on_time, Counter()
        own = msgspec.structs.replace(call, on_time=on_time.pop(None, 0))
        self._emit(batch_event(written, names, own))
        for namespace in theirs.keys() | on_time.keys():
            call = Call(on_time=on_time[namespace], namespace=namespace)
            self._emit(batch_event(theirs.get(str(namespace), []), names, call))

    def _undoubted(self, batch: list[Settlement], applied: set[Lane]) -> list[Settlement]:
        """Settlements written now or by a call whose answer was lost; the others were refused."""
        written = []
        for each in batch:
            if each.lane in applied or (each.lane, each.token) in self._doubtful:
                written.append(each)
            else:
                self._emit(SettleRefused(delivery=each.delivery, token=each.token))
        return written

    async def flush(self) -> None:
        """Write all outcomes that wait."""
        while self._waiting:
            await self.tick()

    def forget(self) -> None:
        """Drop the outcomes that wait: the lease is lost, and the store would refuse them."""
        self._waiting.clear()
