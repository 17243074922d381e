"""Watches the lease: a process that lost it registers as a new worker."""

from __future__ import annotations

from duly.domain.deliveries.crashes import CrashRule
from duly.domain.events import CrashesTakenBack, LeaseWasLost
from duly.engine.dispatch.claims import Claims
from duly.engine.dispatch.suspects import Suspects
from duly.engine.execution.delivery_runner import DeliveryRunner
from duly.engine.execution.settler import Settler
from duly.engine.loops import UNTIL_WOKEN, Pause
from duly.engine.membership import Membership
from duly.engine.work_signal import WorkSignal
from duly.ports import Emit, Store


class LeaseMonitor:
    """Abandons the attempts of a lost lease, and registers a new worker."""

    name = "lease monitor"

    def __init__(
        self,
        store: Store,
        membership: Membership,
        runner: DeliveryRunner,
        claims: Claims,
        suspects: Suspects,
        settler: Settler,
        signal: WorkSignal,
        crash_rule: CrashRule,
        emit: Emit,
    ) -> None:
        self.wake = membership.lost
        self._store = store
        self._membership = membership
        self._runner = runner
        self._claims = claims
        self._suspects = suspects
        self._settler = settler
        self._signal = signal
        self._crash_rule = crash_rule
        self._emit = emit
        self._declared_dead: set[int] = set()

    async def tick(self) -> Pause:
        """Register as a new worker if the lease was lost."""
        if self._membership.lease.lost:
            await self.lose_lease()
            await self._membership.register()
            self._signal.wake.set()
        await self.undo_crashes()
        return UNTIL_WOKEN

    async def lose_lease(self) -> None:
        """Abandon running attempts: others have them now, and the store would refuse outcomes."""
        self._emit(LeaseWasLost(worker=self._membership.worker, running=self._runner.running))
        self.note_survival()
        await self._runner.drain(0)
        self._runner.is_draining = False
        self._claims.abandon()
        self._suspects.reset()
        self._settler.forget()

    def note_survival(self) -> None:
        """Note that the worker was declared dead although its process lives."""
        self._declared_dead.add(self._membership.worker)

    async def undo_crashes(self) -> None:
        """Undo the crashes counted for this process: its deliveries did not kill it."""
        for worker in list(self._declared_dead):
            suspect_after = self._crash_rule.suspect_after
            crashes = await self._store.workers.undo_crashes(worker, suspect_after)
            self._declared_dead.discard(worker)
            self._store.wakeups.hint()
            self._emit(CrashesTakenBack(worker=worker, crashes=crashes))
