"""The parts of a worker, built in the order in which they need each other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from duly.domain.deliveries.crashes import CrashRule
from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.endpoints.limits import DeclaredLimits
from duly.engine.batch_finisher import BatchFinisher
from duly.engine.dispatch.claimable_work import ClaimableWork
from duly.engine.dispatch.claimer import Claimer
from duly.engine.dispatch.claims import Claims
from duly.engine.dispatch.dispatcher import Dispatcher
from duly.engine.dispatch.isolation import Isolation
from duly.engine.dispatch.rotation import Rotation
from duly.engine.dispatch.suspects import Suspects
from duly.engine.execution.delivery_runner import DeliveryRunner
from duly.engine.execution.executor import Executor
from duly.engine.execution.running import RunningMonitor
from duly.engine.execution.settler import Observer, Settler
from duly.engine.lease_monitor import LeaseMonitor
from duly.engine.loops import Loop
from duly.engine.maintenance import Listener, Pruner, RetentionPruner, Sweeper
from duly.engine.membership import Membership
from duly.engine.monitoring.backlog import Backlog
from duly.engine.namespaces import ServedNamespaces
from duly.engine.planner import Planner
from duly.engine.planners import Planners
from duly.engine.recovery import Recovery
from duly.engine.revival import Reviver
from duly.engine.store_clock import StoreClock
from duly.engine.stream_releaser import StreamReleaser
from duly.engine.targets.admission import AdmissionControl
from duly.engine.targets.directory import TargetDirectory
from duly.engine.targets.pace import Pace
from duly.engine.targets.pacing import Pacing
from duly.engine.unique_keys import UniqueKeyTidier
from duly.engine.work_signal import WorkSignal
from duly.errors import StoreUnavailable
from duly.ports import KEPT_FOR, Chance, Clock, Emit, Store, Transport
from duly.settings import Settings

AGAIN_SECONDS = 0.2


class Worker:
    """Claims, runs, settles and reclaims deliveries, and plans schedules.

    An Engine runs its loops. `schedules` are those that the code of this process declares, by name,
    and `limits` those of its handlers.
    A `stepped` worker has no heartbeat and no loops; each `step` does one
    round of their work.
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
        observers: Sequence[Observer] = (),
        schedules: Callable[[], Sequence[str]] = tuple,
        limits: Callable[[], Mapping[str, DeclaredLimits]] = dict,
        stepped: bool = False,
    ) -> None:
        self.store = store = store.serving(settings.served)
        self.settings = settings
        self._clock = clock
        self._chance = chance
        self._emit = emit
        crash_rule, grace = CrashRule(), timedelta(seconds=settings.grace)
        self._store_clock = StoreClock(clock)
        self.signal = WorkSignal()
        self.membership = Membership(
            store,
            clock,
            settings,
            transport.serves,
            name,
            emit,
            beating=not stepped,
            schedules=schedules,
        )
        self.namespaces = ServedNamespaces(store, settings.served)
        self.directory = TargetDirectory(store, transport, limits)
        self.pace = Pace(clock.monotonic)
        self.admission = self._make_admission()
        rotation = Rotation(self.signal, self._store_clock)
        told = (*observers, rotation.settled, self._share_handed_back)
        self.settler = self._make_settler(told, stepped)
        executor = Executor(
            store, transport, self._store_clock, chance, crash_rule, self.settler, emit
        )
        self.runner = self._make_runner(executor, grace)
        self.running_monitor = RunningMonitor(executor, self.runner)
        self.planner = Planners(
            store, settings.served, clock, emit, self._make_planner, poll=settings.poll
        )
        self.claims = Claims(store.agenda, store.turns, rotation, clock, self.membership, emit)
        self._work = self._make_work(rotation)
        claimer = Claimer(self.claims, self.admission, self.runner, self.settler)
        suspects = self._make_suspects(claimer)
        self.dispatcher = self._make_dispatcher(claimer, suspects)
        self.recovery = Recovery(
            executor, self.directory, self.membership, observers, emit, settings.recovery_interval
        )
        self.reviver = Reviver(store, transport, settings, clock, emit)
        self._add_tidiers()
        self.backlog = Backlog(store.agenda, clock, emit, self.directory, self.runner.late, grace)
        self.lease_monitor = self._make_lease_monitor(suspects, crash_rule)

    def _make_admission(self) -> AdmissionControl:
        return AdmissionControl(
            self.store.gates,
            self._emit,
            self.directory,
            self.signal,
            self.membership,
            Pacing(self._clock.monotonic),
            self.pace,
            self.settings.concurrency,
        )

    def _make_work(self, rotation: Rotation) -> ClaimableWork:
        return ClaimableWork(
            self.store.agenda,
            self.directory,
            self.admission,
            self.signal,
            self._store_clock,
            rotation,
            self.pace,
            self.settings.concurrency,
        )

    def _share_handed_back(self, written: Sequence[Settlement], directory: TargetDirectory) -> None:
        """Wake other workers, or an idle one would find what was handed back at its next poll."""
        deferred = [each for each in written if each.verdict is Verdict.DEFERRED]
        back = {each.target for each in deferred if each.is_handed_back}
        for namespace in {directory.namespace(target) for target in back}:
            self.store.within(namespace).wakeups.hint()

    def _add_tidiers(self) -> None:
        """The loops that end what no attempt ends: blocked streams, batches, unique keys."""
        interval = self.settings.recovery_interval
        self.stream_releaser = StreamReleaser(self.store, self._emit, interval)
        self.batch_finisher = BatchFinisher(self.store, self._clock, self._chance, self._emit)
        self.unique_key_tidier = UniqueKeyTidier(self.store, interval)

    def _make_settler(self, observers: Sequence[Observer], stepped: bool) -> Settler:
        return Settler(
            self.store.agenda,
            self._clock,
            self._emit,
            self.directory,
            self.signal,
            observers,
            writes_on_demand=stepped,
        )

    def _make_runner(self, executor: Executor, grace: timedelta) -> DeliveryRunner:
        return DeliveryRunner(
            executor,
            self.settler,
            self.directory,
            self.admission,
            self.membership,
            self.signal,
            self._emit,
            self.pace,
            concurrency=self.settings.concurrency,
            grace=grace,
        )

    def _make_suspects(self, claimer: Claimer) -> Suspects:
        return Suspects(
            self._work,
            claimer,
            self.runner,
            self.settler,
            Isolation(self.store.workers, self._clock),
            self.membership,
            self.signal,
            self._emit,
            poll=self.settings.poll,
        )

    def _make_dispatcher(self, claimer: Claimer, suspects: Suspects) -> Dispatcher:
        return Dispatcher(
            self.membership,
            self.signal,
            self._work,
            self.claims,
            claimer,
            suspects,
            self.runner,
            self.settler,
            self.planner,
            self._store_clock,
            concurrency=self.settings.concurrency,
            poll=self.settings.poll,
        )

    def _make_lease_monitor(self, suspects: Suspects, crash_rule: CrashRule) -> LeaseMonitor:
        return LeaseMonitor(
            self.store,
            self.membership,
            self.runner,
            self.claims,
            suspects,
            self.settler,
            self.signal,
            crash_rule,
            self._emit,
        )

    def _make_planner(self, store: Store, emit: Emit) -> Planner:
        return Planner(
            store,
            self._clock,
            self._chance,
            emit,
            poll=self.settings.poll,
            is_busy=self.runner.is_busy,
        )

    def loops(self) -> list[Loop]:
        """All loops except the planner, and those that end after the others (see Engine)."""
        quick = (
            self.dispatcher,
            self.recovery,
            self.reviver,
            self.stream_releaser,
            self.batch_finisher,
            self.unique_key_tidier,
            self.backlog,
            self.admission,
            self.lease_monitor,
        )
        return [*quick, *self._slow_loops()]

    def _slow_loops(self) -> list[Loop]:
        settings, maintenance = self.settings, self.store.maintenance
        pruner = Pruner(
            maintenance,
            self._emit,
            keep_completed=timedelta(seconds=settings.keep_completed),
            keep_dead=timedelta(seconds=settings.keep_dead),
            interval=settings.prune_interval,
            batch=settings.prune_batch,
        )
        sweeper = Sweeper(
            maintenance,
            partial(self.namespaces.repair, self._chance.delivery_id),
            self._emit,
            interval=settings.sweep_interval,
            batch=settings.sweep_batch,
        )
        kept_for = timedelta(seconds=settings.keep_completed)
        received_for, prune = timedelta(seconds=settings.inbox_retention), self.namespaces.prune
        retention = RetentionPruner(
            [
                (partial(prune, lambda store: store.inbox.prune), received_for),
                (partial(prune, lambda store: store.idempotency.prune), KEPT_FOR),
                (partial(prune, lambda store: store.batches.prune), kept_for),
            ],
            interval=settings.prune_interval,
            batch=settings.prune_batch,
        )
        listener = Listener(self.store.wakeups, min(settings.poll, 0.25))
        return [pruner, retention, sweeper, listener]

    async def join(self) -> None:
        """Register as a worker, and reclaim what dead ones held."""
        await self.store.reserve()
        asked_at = self._store_clock.monotonic()
        now, _ = await self.store.plans.clock()
        self._store_clock.observe(now, asked_at)
        await self.directory.load()
        await self.membership.register()
        await self.recovery.at_start(self.membership.worker)

    async def step(self) -> int:
        """Claim, run and settle what is due, if `stepped`; returns how many were claimed."""
        await self.membership.beat_once()
        await self.lease_monitor.tick()
        await self.recovery.tick()
        await self.running_monitor.look()
        await self.reviver.catch_up()
        await self.planner.catch_up()
        await self.stream_releaser.tick()
        await self.batch_finisher.catch_up()
        await self.unique_key_tidier.tick()
        self.signal.hint()
        await self.dispatcher.tick()
        claimed = self.runner.running
        await self.runner.drain(None)
        await self.settler.flush()
        await self.admission.tick()
        return claimed

    async def next_due(self) -> datetime | None:
        """When the first lane is due that this worker could claim, or a loop has work."""
        await self._work.survey()
        moments = (
            self._work.next_due(),
            self.reviver.next_at,
            await self.stream_releaser.next_at(),
        )
        return min((each for each in moments if each is not None), default=None)

    async def leave(self) -> None:
        """Write the last outcomes, hand back what is held, and unregister; waits for the store."""
        while True:
            try:
                await self.settler.flush()
                await self.running_monitor.look()
                with contextlib.suppress(StoreUnavailable):
                    # Claims whose answer was lost, for the last time.
                    await self.claims.hand_back(at_once=True)
                if self.membership.lease.lost:
                    self.lease_monitor.note_survival()
                await self.lease_monitor.undo_crashes()
                if not self.runner.running:
                    # Otherwise the lease has to run out: unregistering would free what still runs.
                    await self.membership.end()
                return
            except StoreUnavailable:
                await self._clock.sleep(AGAIN_SECONDS)
