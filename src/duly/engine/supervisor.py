"""The engine's life: an ordered start, loops that outlive their failures, an ordered stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta

from duly.domain.deliveries.crashes import CrashRule
from duly.domain.deliveries.delivery import Lane
from duly.domain.events import (
    CrashesTakenBack,
    Draining,
    LeaseWasLost,
    LoopEnded,
    WorkerStopped,
)
from duly.domain.roles import Role, refuse_apart
from duly.engine.dispatch.dispatcher import Dispatcher
from duly.engine.execution.execution import Executor
from duly.engine.execution.settler import UNTIL_WOKEN, OnSettled, Settler
from duly.engine.loops import Loop, Pause, Runner
from duly.engine.maintenance import Forgetter, Listener, Pruner, Sweeper
from duly.engine.membership import Membership
from duly.engine.monitoring.backlog import Backlog
from duly.engine.namespaces import Memories, Menders, ServedNamespaces
from duly.engine.planner import Planner
from duly.engine.planners import Planners
from duly.engine.recovery import Recovery
from duly.engine.store_clock import StoreClock
from duly.engine.targets.admission import AdmissionControl
from duly.engine.targets.directory import TargetDirectory
from duly.engine.work_signal import WorkSignal
from duly.errors import StoreUnavailable
from duly.ports import KEPT_FOR, Chance, Clock, Emit, Store, Transport
from duly.settings import Settings

AGAIN_SECONDS = 0.2
LAST_WORD_SECONDS = 5.0
"""How long a stop waits for the store to take the last outcomes."""


class Engine:
    """One process: as a worker what it claims, runs, settles and takes back, as a planner plans.

    Which of the two it is, or both, its settings say; without either it runs only what is attached.
    A `stepped` one has no loops and no heartbeat: prepare it, then each `step` does one round.
    """

    def __init__(
        self,
        store: Store,
        transport: Transport,
        clock: Clock,
        chance: Chance,
        emit: Emit,
        settings: Settings,
        name: str,
        *,
        stepped: bool = False,
    ) -> None:
        refuse_apart(settings.roles, store.single_owner)
        self._works, self._plans = (each in settings.roles for each in (Role.WORKER, Role.PLANNER))
        store = store.serving(settings.served)
        self._store = store
        self.territory = ServedNamespaces(store, settings.served)
        self._transport = transport
        self._clock = clock
        self._chance = chance
        self._emit = emit
        self._settings = settings
        self._name = name
        self._runner = Runner(emit, chance.fraction)
        self._store_clock = StoreClock(clock)
        self._executor = Executor(store, transport, self._store_clock, chance, CrashRule(), emit)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failure: RuntimeError | None = None
        self.on_failed: Callable[[], None] | None = None
        """Called when a loop ends that was not stopped."""
        self._buried_alive: set[int] = set()
        self.is_ready = False
        """What dead workers held is taken back and what was missed is planned; not stopping."""
        self._writing = asyncio.Lock()
        self._at_end: Callable[[], Awaitable[None]] | None = None
        self.signal = WorkSignal()
        self.directory = TargetDirectory(store, transport)
        self.settler = Settler(store.agenda, clock, emit, self.directory, self.signal)
        # Without loops, an attempt that waits for an outcome has to write it.
        self._executor.written = self._write_now if stepped else self.settler.written
        self.membership = Membership(
            store, clock, settings, transport.serves, name, emit, beating=not stepped
        )
        self.gates = AdmissionControl(
            store.gates, emit, self.directory, self.signal, self.membership, settings.concurrency
        )
        self.dispatcher = self._dispatching()
        self.recovery = Recovery(
            self._executor,
            self.directory,
            emit,
            settings.recovery_interval,
            self.membership,
        )
        self.planner = Planners(
            store, settings.served, clock, emit, self._planning, poll=settings.poll
        )
        self.dispatcher.on_return = self.planner.catch_up
        self.backlog = Backlog(
            store.agenda,
            clock,
            emit,
            self.directory,
            self.dispatcher.runner.late,
            timedelta(seconds=settings.grace),
        )
        self.life = LeaseMonitor(self)
        self._loops: list[Loop] = self._workers_loops() if self._works else []
        if self._plans:
            self._loops.append(self.planner)

    def _planning(self, store: Store, emit: Emit) -> Planner:
        settings, clock, chance = self._settings, self._clock, self._chance
        return Planner(
            store, clock, chance, emit, poll=settings.poll, is_busy=lambda: self.dispatcher.is_busy
        )

    def observe(self, on_settled: OnSettled, at_end: Callable[[], Awaitable[None]]) -> None:
        """Tell somebody what was written to the books, and at the end that it was all."""
        self.settler.on_settled = self.recovery.on_settled = on_settled
        self._at_end = at_end

    def attach(self, *loops: Loop) -> None:
        """Have more loops run beside its own, from the start to the stop."""
        self._loops.extend(loops)

    def _workers_loops(self) -> list[Loop]:
        quick = (self.dispatcher, self.recovery, self.backlog, self.gates, self.life)
        return [*quick, *self._slow_loops()]

    def _dispatching(self) -> Dispatcher:
        settings = self._settings
        return Dispatcher(
            self._executor,
            self.settler,
            self.membership,
            self.directory,
            self._clock,
            self.signal,
            self.gates,
            self._emit,
            concurrency=settings.concurrency,
            poll=settings.poll,
            grace=timedelta(seconds=settings.grace),
        )

    def _slow_loops(self) -> list[Loop]:
        settings, upkeep = self._settings, self._store.maintenance
        pruner = Pruner(
            upkeep,
            self._emit,
            keep_completed=timedelta(seconds=settings.keep_completed),
            keep_dead=timedelta(seconds=settings.keep_dead),
            interval=settings.prune_interval,
            batch=settings.prune_batch,
        )
        sweeper = Sweeper(
            upkeep,
            Menders(self.territory, self._chance.delivery_id),
            self._emit,
            interval=settings.sweep_interval,
            batch=settings.sweep_batch,
        )
        received_for = timedelta(seconds=settings.inbox_retention)
        forgetter = Forgetter(
            [
                (Memories(self.territory, lambda store: store.inbox), received_for),
                (Memories(self.territory, lambda store: store.idempotency), KEPT_FOR),
            ],
            interval=settings.prune_interval,
            batch=settings.prune_batch,
        )
        listener = Listener(self._store.wakeups, min(settings.poll, 0.25))
        return [pruner, forgetter, sweeper, listener]

    async def start(self) -> None:
        """Take back what dead workers held, and only then begin to claim."""
        try:
            await self.prepare()
        except BaseException:
            await self.membership.stop_beating()
            raise
        if self._works:
            self._store.wakeups.listen(self.signal.hint)
            self._run(self.settler)
        for loop in self._loops:
            self._run(loop)

    def _run(self, loop: Loop) -> None:
        task = asyncio.create_task(self._runner.run(loop), name=loop.name)
        task.add_done_callback(self._notice_end)
        self._tasks[loop.name] = task

    def _notice_end(self, task: asyncio.Task[None]) -> None:
        """Say so when a loop has ended that nobody stopped: what it does is no longer done."""
        error = None if task.cancelled() else task.exception()
        # A program that ends cancels all tasks at once, those that stop the engine among them.
        if not self.is_ready or (error is None and not task.cancelled()):
            return
        name = task.get_name()
        problem = "it was cancelled" if error is None else f"{type(error).__name__}: {error}"
        self._failure = RuntimeError(f"the engine's loop {name!r} ended by itself: {problem}")
        self._failure.__cause__ = error
        self.is_ready = False
        self._emit(LoopEnded(loop=name, problem=problem))
        if self.on_failed is not None:
            self.on_failed()

    def raise_failure(self) -> None:
        """Raise what ended a loop that nobody stopped, if one did."""
        if self._failure is not None:
            raise self._failure

    async def prepare(self) -> None:
        """All of a start but the loops."""
        await self._store.own()
        if self._works:
            await self._store.reserve()
            now, _ = await self._store.plans.clock()
            self._store_clock.observe(now)
            await self.directory.load()
            await self.membership.register()
            await self.recovery.at_start(self.membership.worker)
        if self._plans:
            await self.planner.at_start()
        elif self._works:
            # Whoever else plans: what is merged into a later one must not be claimed before that.
            await self.planner.catch_up()
        self.is_ready = True

    async def step(self) -> int:
        """One round of what the loops do, for a `stepped` engine, which has no loops.

        Claims what is due, attempts it to the end and settles it; returns how many were claimed.
        """
        await self.membership.beat_once()
        await self.life.tick()
        await self.recovery.tick()
        await self.planner.catch_up()
        self.signal.hint()
        await self.dispatcher.tick()
        claimed = self.dispatcher.running
        await self.dispatcher.drain(None)
        await self.settler.flush()
        await self.gates.tick()
        return claimed

    async def _write_now(self, lane: Lane, token: int) -> None:  # noqa: ARG002 - writes them all
        async with self._writing:
            await self.settler.flush()

    async def stop(self) -> None:
        """Stop claiming at once, let running work end, hand back the rest, say goodbye."""
        self.is_ready = False
        for loop in self._loops:
            self._runner.stop(loop)
        running = self.dispatcher.running
        if running:
            self._emit(Draining(running=running, seconds=self._settings.drain))
        await self._end(loop.name for loop in self._loops)
        if self._works:
            released = await self.dispatcher.drain(self._settings.drain)
            await self._last_words()
            worker, held = self.membership.worker, self.dispatcher.running
            self._emit(WorkerStopped(worker=worker, released=released, held=held))
        if self._at_end is not None:
            await self._at_end()

    async def _end(self, names: Iterable[str]) -> None:
        tasks = [self._tasks.pop(name) for name in list(names) if name in self._tasks]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=LAST_WORD_SECONDS)
            for task in late:
                task.cancel()
            if late:
                # A settler that is cut off puts its outcomes back; they are written after this.
                await asyncio.wait(late, timeout=LAST_WORD_SECONDS)

    async def _last_words(self) -> None:
        self._runner.stop(self.settler)
        await self._end([self.settler.name])
        try:
            async with asyncio.timeout(LAST_WORD_SECONDS):
                await self._say_goodbye()
        except TimeoutError:
            pass  # the lease runs out, and others take back what is left
        finally:
            await self.membership.stop_beating()

    async def _say_goodbye(self) -> None:
        while True:
            try:
                await self.settler.flush()
                await self.dispatcher.let_go()
                if self.membership.lease.lost:
                    self._buried_alive.add(self.membership.worker)
                await self.acquit()
                if not self.dispatcher.running:
                    # Otherwise the lease has to run out: whoever ends gives away what it holds.
                    await self.membership.end()
                return
            except StoreUnavailable:
                await self._clock.sleep(AGAIN_SECONDS)

    async def lose_lease(self) -> None:
        """Abandon what runs: others have it now, and the store would refuse its outcomes."""
        worker = self.membership.worker
        self._emit(LeaseWasLost(worker=worker, running=self.dispatcher.running))
        self._buried_alive.add(worker)
        await self.dispatcher.drain(0)
        self.dispatcher.begin_anew()
        self.settler.forget()

    async def acquit(self) -> None:
        """What this process held did not kill it: take back the crashes that say so."""
        for worker in list(self._buried_alive):
            suspect_after = self._executor.crash_rule.suspect_after
            crashes = await self._store.workers.acquit(worker, suspect_after)
            self._buried_alive.discard(worker)
            self._store.wakeups.hint()
            self._emit(CrashesTakenBack(worker=worker, crashes=crashes))


class LeaseMonitor:
    """Watches the lease; a worker that lost it is born again as another."""

    name = "life"

    def __init__(self, engine: Engine) -> None:
        self.wake = engine.membership.lost
        self._engine = engine

    async def tick(self) -> Pause:
        """Begin anew if the lease was lost."""
        if self._engine.membership.lease.lost:
            await self._engine.lose_lease()
            await self._engine.membership.register()
            self._engine.signal.wake.set()
        await self._engine.acquit()
        return UNTIL_WOKEN
