"""Claims suspects: deliveries that may have crashed a worker run alone on an idle one."""

from __future__ import annotations

from datetime import datetime

from duly.domain.events import SuspectRuns
from duly.engine.dispatch.claimable_work import ClaimableWork
from duly.engine.dispatch.claimer import Claimer
from duly.engine.dispatch.isolation import Isolation
from duly.engine.execution.delivery_runner import DeliveryRunner
from duly.engine.execution.settler import Settler
from duly.engine.loops import NOW, Pause
from duly.engine.membership import Membership
from duly.engine.work_signal import WorkSignal
from duly.ports import Emit

AGAIN_SECONDS = 0.05


class Suspects:
    """Alternates with other deliveries, so that many suspects do not hold those up."""

    def __init__(
        self,
        work: ClaimableWork,
        claimer: Claimer,
        runner: DeliveryRunner,
        settler: Settler,
        isolation: Isolation,
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
        self._isolation = isolation
        self._membership = membership
        self._signal = signal
        self._emit = emit
        self._poll = poll
        self._is_turn = True

    def is_due(self, now: datetime) -> bool:
        """Whether to claim, or wait for, a suspect next."""
        others = self._work.has_others(now)
        return (self._is_turn or not others) and self._isolation.wants(
            suspects=self._work.has_suspects(now), is_idle=self._is_idle, others=others
        )

    @property
    def _is_idle(self) -> bool:
        # A suspect may kill the process: all outcomes are written before it runs.
        runner = self._runner
        return not (runner.running or runner.behind.queues or self._settler.unsettled)

    async def isolate(self) -> bool:
        """Claim nothing else from now on; False if another worker is isolated."""
        return await self._isolation.enter(self._membership.worker)

    async def let_others_run(self) -> None:
        """Let other deliveries be claimed; after that it is the suspects' turn again."""
        await self._isolation.leave(in_vain=bool(self._runner.running))
        self._is_turn = True

    async def stop_waiting(self) -> None:
        """Stop waiting for a suspect: this worker drains and claims nothing."""
        await self._isolation.leave()

    def reset(self) -> None:
        """Reset after the lease, and the isolation with it, was lost."""
        self._isolation.reset()

    async def claim(self, now: datetime) -> Pause:
        """Claim one if the worker is idle, otherwise wait for that."""
        if not self._is_idle:
            return Pause(min(self._poll, self._isolation.again_in()))
        self._is_turn = False
        asked, claimed, started = await self._claimer.claim(1, self._work.suspect(now))
        self._work.note(asked, claimed, 1)
        self._signal.came_short = True
        self._runner.is_alone = bool(started)
        if not started:
            self._isolation.postpone()
        for each in claimed:
            foreign = self._work.foreign(each.target)
            self._emit(SuspectRuns(delivery=str(each.id), crashes=each.crashes, namespace=foreign))
        return NOW if claimed else Pause(min(AGAIN_SECONDS, self._poll))

    def longest_pause(self, now: datetime) -> float:
        """Seconds the dispatcher may sleep without missing a suspect's turn."""
        if self._work.has_suspects(now):
            return min(self._poll, self._isolation.again_in())
        return self._poll
