"""Reclaims what dead workers held.

Doing it twice is harmless: it is settled under the dead worker's own token, so the store accepts
only the first of two writers, also if one of them is that worker itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import Cancelled, Crashed, Settlement, Verdict
from duly.domain.events import Reclaimed, WorkersDeclaredDead
from duly.engine.execution.executor import Executor
from duly.engine.execution.settler import Observer
from duly.engine.loops import NOW, Pause
from duly.engine.membership import Membership
from duly.engine.targets.directory import TargetDirectory
from duly.failpoints import hit
from duly.ports import Emit, TargetName

BATCH = 500


class Recovery:
    """Declares workers dead whose lease ran out, and reclaims their deliveries."""

    name = "recovery"

    def __init__(
        self,
        executor: Executor,
        directory: TargetDirectory,
        membership: Membership,
        observers: Sequence[Observer],
        emit: Emit,
        interval: float,
    ) -> None:
        self.wake = asyncio.Event()
        self._executor = executor
        self._directory = directory
        self._membership = membership
        self._observers = observers
        self._emit = emit
        self._interval = interval

    async def tick(self) -> Pause:
        """Declare workers dead, and reclaim one batch."""
        store = self._executor.store
        if self._membership.lease.holds():
            # A worker that was suspended itself cannot judge the others.
            await self._bury(self._membership.worker)
        if await self.take_back():
            return NOW
        await store.workers.finish_dead()
        return Pause(self._interval)

    async def at_start(self, survivor: int) -> int:
        """Reclaim everything that dead workers hold; returns the number of deliveries.

        In a store with a single owner all earlier workers are dead.
        """
        await self._bury(survivor)
        total = 0
        while taken := await self.take_back():
            total += taken
        return total

    async def _bury(self, own: int) -> None:
        workers = self._executor.store.workers
        single = self._executor.store.single_owner
        asking = {"survivor": own} if single else {"worker": own}
        if dead := await workers.declare_dead(**asking):
            self._emit(WorkersDeclaredDead(workers=dead))

    async def take_back(self) -> int:
        """Reclaim one batch of what dead workers hold; returns its size."""
        store = self._executor.store
        held = await store.agenda.held_by_dead(BATCH)
        if not held:
            return 0
        await hit("reclaim.before")
        nameless = TargetName(store.namespace, "")
        names = await store.targets.named({each.target for each in held})
        # The observers look up the targets, and at a start there was no survey yet.
        self._directory.note(names)
        asked = await store.running.asked([each.id for each in held])
        settlements = [
            self._settled(each, names.get(each.target, nameless), asked=each.id in asked)
            for each in held
        ]
        applied = await store.agenda.settle(settlements)
        await hit("reclaim.after")
        self._report([each for each in settlements if each.lane in applied], names)
        store.wakeups.hint()
        return len(held)

    def _settled(self, claimed: Claimed, to: TargetName, *, asked: bool) -> Settlement:
        outcome = Cancelled() if asked else Crashed()
        return self._executor.decide(claimed, to.name, to.namespace, outcome, None)

    def _report(self, taken: list[Settlement], names: Mapping[int, TargetName]) -> None:
        own = self._executor.store.namespace
        by_namespace: dict[str, list[Settlement]] = {} if taken else {own: []}
        for each in taken:
            to = names.get(each.target)
            by_namespace.setdefault(own if to is None else to.namespace, []).append(each)
        for namespace, theirs in by_namespace.items():
            poison = sum(each.verdict is Verdict.DEAD for each in theirs)
            foreign = None if namespace == own else namespace
            self._emit(Reclaimed(deliveries=len(theirs), poison=poison, namespace=foreign))
        for observer in self._observers:
            observer(taken, self._directory)
