"""Claiming suspects: deliveries that may have crashed a worker run alone on an idle one."""

from __future__ import annotations

from datetime import datetime

from duly.domain.events import SuspectRuns
from duly.engine.dispatch.aside import Aside
from duly.engine.dispatch.claimable_work import ClaimableWork
from duly.engine.dispatch.claimer import Claimer
from duly.engine.execution.delivery_runner import DeliveryRunner
from duly.engine.execution.settler import Settler
from duly.engine.loops import NOW, Pause
from duly.engine.membership import Membership
from duly.engine.work_signal import WorkSignal
from duly.ports import Emit

AGAIN_SECONDS = 0.05


class Suspects:
    """Takes turns with the rest, or a hundred suspects would hold up everyone."""

    def __init__(
        self,
        work: ClaimableWork,
        claimer: Claimer,
        runner: DeliveryRunner,
        settler: Settler,
        aside: Aside,
        membership: Membership,
        signal: WorkSignal,
        emit: Emit,
        *,
        poll: float,
    ) -> None:
        self._work = work
        self._claimer = claimer
        self._runner = runner
        self._settler = settler
        self._aside = aside
        self._membership = membership
        self._signal = signal
        self._emit = emit
        self._poll = poll
        self._is_turn = True

    def is_due(self, now: datetime) -> bool:
        """Whether a suspect is to be claimed next, or waited for."""
        others = self._work.has_others(now)
        return (self._is_turn or not others) and self._aside.wants(
            suspects=self._work.has_suspects(now), is_idle=self._is_idle, others=others
        )

    @property
    def _is_idle(self) -> bool:
        # Every outcome that a suspect could destroy is written before it runs.
        return not self._runner.running and not self._settler.unsettled

    async def stand_aside(self) -> bool:
        """Claim nothing else from now on; False when another worker does."""
        return await self._aside.stand(self._membership.worker)

    async def leave_to_others(self) -> None:
        """Let the rest be claimed; after that it is the suspects' turn again."""
        await self._aside.leave(in_vain=bool(self._runner.running))
        self._is_turn = True

    async def stop_waiting(self) -> None:
        """Wait for no suspect any more: this worker is to claim nothing."""
        await self._aside.leave()

    def forget(self) -> None:
        """The lease is lost, and the place aside with it."""
        self._aside.forget()

    async def claim(self, now: datetime) -> Pause:
        """Claim one if the worker is idle, else wait for that."""
        if not self._is_idle:
            return Pause(min(self._poll, self._aside.again_in()))
        self._is_turn = False
        asked, claimed, started = await self._claimer.claim(1, self._work.suspect(now))
        self._work.note(asked, claimed, 1)
        self._signal.came_short = True
        self._runner.is_alone = bool(started)
        if not started:
            self._aside.put_off()
        for each in claimed:
            foreign = self._work.foreign(each.target)
            self._emit(SuspectRuns(delivery=str(each.id), crashes=each.crashes, namespace=foreign))
        return NOW if claimed else Pause(min(AGAIN_SECONDS, self._poll))

    def longest_pause(self, now: datetime) -> float:
        """How many seconds the dispatcher may sleep without missing a suspect's turn."""
        if self._work.has_suspects(now):
            return min(self._poll, self._aside.again_in())
        return self._poll
